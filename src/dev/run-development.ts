// `npm run dev`: the whole product on one machine, with the interface of docs/contract/development.md. This file makes
// sure of one run per state folder, cleans up after a killed run, and ends the run; start-product.ts starts the parts.
import { randomUUID } from 'node:crypto';
import { chmod, mkdir, realpath } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { readDevelopmentOptions } from './development-options.ts';
import { openOutput } from './development-output.ts';
import { baseEnvironment } from './processes/role-processes.ts';
import { endRunProcesses, RUN_MARK_VARIABLE, runMark } from './processes/run-processes.ts';
import { lockState } from './processes/state-lock.ts';
import { Supervisor } from './processes/supervisor.ts';
import { startWatchdog } from './processes/watchdog.ts';
import { type RunContext, startProduct } from './start-product.ts';
import { State } from './state.ts';

/** How long to search for processes that an interrupted start may spawn late. */
const LATE_SPAWN_MS = 1_000;

/** Runs until SIGINT, SIGTERM or SIGHUP and resolves to the exit code. Throws an Error whose message is for people. */
export async function runDevelopment(args: readonly string[]): Promise<number> {
  const options = readDevelopmentOptions(args, process.env);
  // PGHOST and the like are the user's settings for other servers; the URLs of a run are complete without them.
  for (const name of Object.keys(process.env)) if (/^PG[A-Z]+$/.test(name)) delete process.env[name];
  const end = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    end.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => end.abort());
  await mkdir(options.stateFolder, { recursive: true });
  // If root runs this, Postgres runs as another user, who must reach its data.
  await chmod(options.stateFolder, 0o711);
  const folder = await realpath(options.stateFolder);
  const lock = await lockState(folder);
  const cleanup: RunContext['cleanup'] = [() => lock.release()];
  let isStarting = false;
  try {
    await endRunProcesses({ folder }, 2_000);
    const state = await State.open(folder);
    const context: RunContext = {
      options,
      state,
      signal: end.signal,
      cleanup,
      ...openProcesses(folder, cleanup, () => isStarting),
    };
    isStarting = true;
    const started = startProduct(context).finally(() => {
      isStarting = false;
    });
    // A start can take minutes (a build): the end of the run does not wait for it.
    await Promise.race([started, aborted]);
    await aborted;
    return 0;
  } catch (error) {
    if (end.signal.aborted) return 0;
    throw error;
  } finally {
    for (const step of cleanup.toReversed()) await step().catch(() => undefined);
  }
}

function openProcesses(
  folder: string,
  cleanup: RunContext['cleanup'],
  isStarting: () => boolean,
): Pick<RunContext, 'env' | 'output' | 'supervisor'> {
  const runId = randomUUID();
  const env = { ...baseEnvironment(process.env), [RUN_MARK_VARIABLE]: runMark(folder, runId) };
  const watchdog = startWatchdog(folder, runId);
  const output = openOutput(env);
  const supervisor = new Supervisor({
    onStarted: ({ role, health }, pid) => output.announce('started', { role, pid, health }),
    onDied({ name, onLine }, how, lines) {
      const unprinted = onLine ? [] : lines; // onLine has printed each line
      output.print([`${name} ended ${how}.`, ...unprinted].join(`\n  ${name}: `));
    },
  });
  cleanup.push(() => watchdog.end());
  cleanup.push(async () => {
    const deadline = performance.now() + LATE_SPAWN_MS;
    for (;;) {
      await endRunProcesses({ folder, runId }, 0);
      if (!isStarting() || performance.now() > deadline) return;
      await delay(20);
    }
  });
  cleanup.push(() => output.end());
  cleanup.push(() => supervisor.end(['postgres', 'etcd', 'kube-apiserver']));
  cleanup.push(() => supervisor.end(['api', 'sweeper', 'operator']));
  return { env, output, supervisor };
}
