// The faults that the senders live through.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { seedMonitors } from '../support/seed.ts';
import { startFlood } from '../support/start-flood.ts';
import { waitFor } from '../support/wait-for.ts';
import { type Fault, pause, type Target } from './experiment.ts';

/** So many that the plan's cadence refuses none of their beats. */
const FLOODED = 20_000;
/** Together more beats than an api lets wait. */
const FLOOD = { connections: 400, depth: 64 };
/** Beats in a queue that an api writes at once. */
const FEW = 1_000;
const BUSY_PROCESSES = 15;
/** It ends with the test, however that ends. */
const BUSY = 'while kill -0 $PPID 2>/dev/null; do :; done';

/** Postgres is away. */
export function databaseStopped(ms: number, mode: 'fast' | 'immediate'): Fault {
  return {
    name: `Postgres stopped for ${seconds(ms)} (${mode})`,
    aboutMs: ms,
    async run({ postgres }) {
      await postgres.stop(mode);
      await pause(ms);
      await postgres.start();
    },
  };
}

/** The newest api is killed, and started again by its supervisor, again and again. */
export function apiKilled(times: number, everyMs: number): Fault {
  return {
    name: `an api killed ${times} times, ${seconds(everyMs)} apart`,
    aboutMs: times * everyMs,
    async run({ run, apis }) {
      for (let kill = 0; kill < times; kill += 1) {
        if (kill > 0) await pause(everyMs);
        await run.killAndAwaitNext('api');
        await acceptsBeats(apis);
      }
    },
  };
}

/** Nobody may read or write the tables, one after the other. */
export function tablesLocked(tables: readonly string[], ms: number, betweenMs: number): Fault {
  return {
    name: `locks on ${tables.join(', ')} for ${seconds(ms)} each, ${seconds(betweenMs)} between`,
    aboutMs: tables.length * (ms + betweenMs) - betweenMs,
    async run({ pool }) {
      for (const [turn, table] of tables.entries()) {
        if (turn > 0) await pause(betweenMs);
        const client = await pool.connect();
        await client.query(`begin; lock table ${table} in access exclusive mode`);
        await pause(ms);
        await client.query('rollback');
        client.release();
      }
    },
  };
}

/** More beats of other monitors than the service can take. */
export function flooded(ms: number): Fault {
  return {
    name: `flooded for ${seconds(ms)}`,
    aboutMs: ms,
    async run({ apis, pool, project, run }) {
      const others = await seedMonitors(pool, project, FLOODED, {
        configuration: { interval_seconds: 3_600, grace_seconds: 3_600 },
      });
      const file = join(run.folder, 'flood.txt');
      await writeFile(file, others.map(({ address }) => address).join('\n'));
      const floods = apis.map((api) => startFlood(file, { port: Number(new URL(api).port), ...FLOOD }));
      await pause(ms);
      await Promise.all(floods.map(end));
      await Promise.all(run.healths('api').map(hasNoQueue));
    },
  };
}

/** The fault on a machine that other programs use up. */
export function underLoad(fault: Fault): Fault {
  return {
    ...fault,
    name: `${fault.name}, ${BUSY_PROCESSES} busy processes`,
    async run(target) {
      const busy = Array.from({ length: BUSY_PROCESSES }, () =>
        spawn('sh', ['-c', BUSY], { stdio: 'ignore' }),
      );
      try {
        await fault.run(target);
      } finally {
        await Promise.all(busy.map(end));
      }
    },
  };
}

async function acceptsBeats(apis: Target['apis']): Promise<void> {
  for (const api of apis) {
    const isThere = async () => (await fetch(`${api}/ping/${randomUUID()}`)).status === 404;
    await waitFor(isThere, { what: `${api} takes beats`, timeoutMs: 300_000 });
  }
}

/** Resolves when the api whose health is there has dealt with what it had taken. */
async function hasNoQueue(health: string): Promise<void> {
  const isEmpty = async () => {
    const metrics = await (await fetch(`${health}/metrics`)).text();
    return Number(/^beatkeeper_beats_queued (\d+)/m.exec(metrics)?.[1]) < FEW;
  };
  await waitFor(isEmpty, { what: `the api of ${health} has few beats in its queue`, timeoutMs: 300_000 });
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

const seconds = (ms: number) => `${ms / 1_000} s`;
