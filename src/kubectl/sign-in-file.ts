// A file that leads a browser to an address with a token: everybody on a machine sees the command lines of its processes,
// and nobody but its owner reads this file.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

export interface SignInFile {
  path: string;
  remove(): Promise<void>;
}

/** A browser that was slow to start has read it by then. */
const KEPT_MS = 60_000;

/** It is gone after a minute, or by `remove`. A browser in a sandbox sees no hidden folder of the home, and no other /tmp. */
export async function writeSignInFile(
  url: string,
  { folder = homedir(), keptMs = KEPT_MS }: { folder?: string; keptMs?: number } = {},
): Promise<SignInFile> {
  const own = await mkdtemp(join(folder, 'kubectl-beat-'));
  const remove = () => rm(own, { recursive: true, force: true });
  try {
    const path = join(own, 'sign-in.html');
    await writeFile(path, signInPage(url), { mode: 0o600, flag: 'wx' });
    const timer = setTimeout(() => void remove().catch(() => undefined), keptMs);
    timer.unref();
    return {
      path,
      remove() {
        clearTimeout(timer);
        return remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

export function signInPage(url: string): string {
  const address = url.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
  return `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url=${address}">
<title>Beatkeeper</title>
<a href="${address}">Open the dashboard</a>
`;
}
