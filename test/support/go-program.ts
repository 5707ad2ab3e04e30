// Programs that tests need and Go modules bring: each is built once into the project's cache. Not the control plane, which
// `npm run dev` needs too (src/dev/control-plane).
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { findOnPath, isExecutable } from '../../src/dev/processes/executable.ts';
import { runProgram } from './run-program.ts';

export interface GoProgram {
  name: string;
  /** Of the module: another one is built anew. */
  version: string;
  package: string;
  tags?: string;
}

/** Its path; undefined where it is not built yet and there is no Go. Throws the compiler's words. */
export async function findGoProgram(program: GoProgram): Promise<string | undefined> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
  const target = join(cache, `${program.name}-${program.version}`);
  if (await isExecutable(target)) return target;
  const go = await findOnPath('go');
  if (go === undefined) return undefined;
  console.error(`Building ${program.name} ${program.version} from its Go module, once: this takes minutes.`);
  await mkdir(cache, { recursive: true });
  await install(go, program, target);
  return target;
}

// Two runs may do this at once, and one may be killed in the middle: the program appears whole or not at all.
async function install(go: string, program: GoProgram, target: string): Promise<void> {
  const folder = await mkdtemp(`${target}-`);
  try {
    const env = { ...process.env, GOBIN: folder, CGO_ENABLED: '0' };
    const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w', '-tags', program.tags ?? ''];
    const args = ['install', ...flags, `${program.package}@${program.version}`];
    const { code, stderr } = await runProgram(go, args, { env });
    if (code !== 0) throw new Error(`go install ended with code ${code}:\n${stderr.slice(-2_000)}`);
    await rename(join(folder, program.name), target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
