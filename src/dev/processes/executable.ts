// Finds programs on this machine.
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** The first executable file of that name on PATH. */
export async function findOnPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(':')) {
    const candidate = join(folder, name);
    if (folder !== '' && (await isExecutable(candidate))) return candidate;
  }
  return undefined;
}

/** Whether `path` is a file that this user may run. */
export async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
