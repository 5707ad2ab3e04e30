// Helm 3 for tests that mix it with Helm 4: built from its Go module, once, into the project's cache.
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { findOnPath, isExecutable } from '../../src/dev/processes/executable.ts';
import { runProgram } from './run-program.ts';

const VERSION = 'v3.22.0';

export const HOW_TO_GET_HELM_3 = `There is no Helm 3: install Go, which builds ${VERSION} once, in some minutes.`;

/** The path of Helm 3; undefined without Go. Throws the compiler's words. */
export async function findHelm3(): Promise<string | undefined> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
  const helm = join(cache, `helm-${VERSION}`);
  if (await isExecutable(helm)) return helm;
  const go = await findOnPath('go');
  if (go === undefined) return undefined;
  console.error(`Building Helm ${VERSION} from its Go module, once: this takes some minutes.`);
  await mkdir(cache, { recursive: true });
  // Two runs may do this at once, and one may be killed in the middle.
  const folder = await mkdtemp(`${helm}-`);
  try {
    const env = { ...process.env, GOBIN: folder, CGO_ENABLED: '0' };
    const args = ['install', '-trimpath', '-ldflags', '-s -w', `helm.sh/helm/v3/cmd/helm@${VERSION}`];
    const { code, stderr } = await runProgram(go, args, { env });
    if (code !== 0) throw new Error(`go install ended with code ${code}:\n${stderr.slice(-2_000)}`);
    await rename(join(folder, 'helm'), helm);
    return helm;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
