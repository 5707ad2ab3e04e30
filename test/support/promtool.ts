// promtool, which checks and tests alert rules: the one of this machine, or built once from its Go module
// (test/support/promtool) into the project's cache.
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findOnPath, isExecutable } from '../../src/dev/processes/executable.ts';
import { runProgram } from './run-program.ts';

/** As in go.mod; the folder's name, so that another version is built anew. */
const VERSION = 'v0.316.0';
const SOURCE = fileURLToPath(new URL('promtool', import.meta.url));
const PACKAGE = 'github.com/prometheus/prometheus/cmd/promtool';
const ADVICE =
  'There is no promtool: put one on PATH, or install Go 1.26 or newer (one is built once, in about a minute).';

/** Its path. Where there is none and none can be built: undefined and advice on standard error; in CI it throws. */
export async function requirePromtool(): Promise<string | undefined> {
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'beatkeeper');
  const own = join(cache, `promtool-${VERSION}`);
  if (await isExecutable(own)) return own;
  const [installed, go] = await Promise.all([findOnPath('promtool'), findOnPath('go')]);
  if (installed !== undefined) return installed;
  if (go === undefined) {
    if (process.env.CI) throw new Error(ADVICE);
    console.error(`The tests of alerts are skipped. ${ADVICE}`);
    return undefined;
  }
  await mkdir(cache, { recursive: true });
  await build(go, own);
  return own;
}

// Two runs may do this at once, and one may be killed in the middle: the program appears whole or not at all.
async function build(go: string, target: string): Promise<void> {
  console.error(`Building promtool ${VERSION} from its Go module, once: this takes about a minute.`);
  const folder = await mkdtemp(`${target}-`);
  try {
    const built = join(folder, 'promtool');
    // Without the clients of all clouds, by which a Prometheus finds targets: rules need none.
    const flags = ['-trimpath', '-buildvcs=false', '-tags', 'remove_all_sd', '-ldflags', '-s -w'];
    const env = { ...process.env, CGO_ENABLED: '0' };
    const { code, stderr } = await runProgram(go, ['build', ...flags, '-o', built, PACKAGE], {
      cwd: SOURCE,
      env,
    });
    if (code !== 0) throw new Error(`${ADVICE} The build failed: ${stderr.slice(-2_000)}`);
    await rename(built, target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
