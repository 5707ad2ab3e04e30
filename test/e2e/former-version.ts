// The version before this one, from the history of the checkout: what an installation upgrades from and rolls back to. A
// release moves the commit on.
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runProgram } from '../support/run-program.ts';

/** The last one before recurring maintenance. Its migrations are 0001 to 0003. */
export const FORMER_COMMIT = '82b17e0bb0204be8011bc28b19ebc5974309b710';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

export interface FormerVersion {
  /** Its files, and the modules of this version: `node src/main.ts api` works there. */
  folder: string;
  remove(): Promise<void>;
}

/** Throws where the checkout has no such commit: it is no reason to leave a test out. */
export async function extractFormerVersion(): Promise<FormerVersion> {
  const folder = await mkdtemp(join(tmpdir(), 'beatkeeper-former-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const archive = join(folder, 'former.tar');
    await git('archive', '--format=tar', `--output=${archive}`, FORMER_COMMIT);
    await run('tar', '-x', '-f', archive, '-C', folder);
    await rm(archive);
    await symlink(join(CHECKOUT, 'node_modules'), join(folder, 'node_modules'));
  } catch (cause) {
    await remove();
    throw new Error(
      `The files of the version before (${FORMER_COMMIT}) cannot be read from Git: ${(cause as Error).message.trim()}. ` +
        'Test in a clone with the whole history; "git fetch --unshallow" completes a shallow one.',
      { cause },
    );
  }
  return { folder, remove };
}

/** A checkout of another user is as good. */
const git = (...args: string[]) => run('git', '-c', `safe.directory=${CHECKOUT}`, '-C', CHECKOUT, ...args);

async function run(program: string, ...args: string[]): Promise<void> {
  const { code, stderr } = await runProgram(program, args);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${stderr}`);
}
