// `npm run dev`: the whole product on one machine, by the interface that docs/contract/development.md fixes. This file is the
// run's frame: one run a state folder, leftovers of a killed one, the end. What is started is in start-product.ts.
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
import type { RunContext } from './run-context.ts';
import { startProduct } from './start-product.ts';
import { State } from './state.ts';

/** How long a start that was interrupted is watched for what it may still spawn. */
const LATE_SPAWN_MS = 1_000;

/** Runs until SIGINT, SIGTERM or SIGHUP and returns the exit code. Throws an Error with one sentence for people. */
export async function runDevelopment(args: readonly string[]): Promise<number> {
  const options = readDevelopmentOptions(args, process.env);
  // What psql is set to is meant for other servers: the addresses of a run say all about its own.
  for (const name of Object.keys(process.env)) if (/^PG[A-Z]+$/.test(name)) delete process.env[name];
  const told = new AbortController();
  const aborted = new Promise<void>((resolve) => {
    told.signal.addEventListener('abort', () => resolve(), { once: true });
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => told.abort());
  await mkdir(options.stateFolder, { recursive: true });
  await chmod(options.stateFolder, 0o711); // as root Postgres is another user, who must get to its data
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
      signal: told.signal,
      cleanup,
      ...openProcesses(folder, cleanup, () => isStarting),
    };
    isStarting = true;
    const started = startProduct(context).finally(() => {
      isStarting = false;
    });
    // A start can take minutes (a build): being told to end does not wait for it.
    await Promise.race([started, aborted]);
    await aborted;
    return 0;
  } catch (error) {
    if (told.signal.aborted) return 0;
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
    onStarted: (role, pid) => output.announce('started', { role, pid }),
    onDied({ name, onLine }, how, lines) {
      const unsaid = onLine ? [] : lines; // the others were said as they came
      output.say([`${name} ended ${how}.`, ...unsaid].join(`\n  ${name}: `));
    },
  });
  cleanup.push(() => watchdog.end());
  cleanup.push(async () => {
    const end = performance.now() + LATE_SPAWN_MS;
    for (;;) {
      await endRunProcesses({ folder, runId }, 0);
      if (!isStarting() || performance.now() > end) return;
      await delay(20);
    }
  });
  cleanup.push(() => output.end());
  cleanup.push(() => supervisor.end(['postgres', 'etcd', 'kube-apiserver']));
  cleanup.push(() => supervisor.end(['api', 'sweeper', 'operator']));
  return { env, output, supervisor };
}
