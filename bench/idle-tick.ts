// The tick of a sweeper at 1,000,000 monitors of which none is due: on a clean index, and while an old snapshot elsewhere
// keeps in the index what a beat of each monitor has left behind.
import pg from 'pg';
import type { Pool } from '../src/store/postgres/pool.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import { makeSweep, moveClock } from '../test/support/sweeper-fixture.ts';
import { openBenchFixture } from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { median, printRatios } from './table.ts';

const MONITORS = 1_000_000;
/** Each beats once in this time, at a moment of its own. */
const INTERVAL_MS = 300_000;
const TICKS = 50;
const TICK_MS = 200;
const GOAL_MS = 1;

export async function measureIdleTick(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const { pool } = await openBenchFixture(environment.databaseUrl);
  const firstMs = (await readNow(pool)) - INTERVAL_MS;
  await seedLiveRows(pool, firstMs);
  // Before the first of them was due.
  const clean = await measureTicks(pool, firstMs - INTERVAL_MS, pairs);
  // A client of its own: our pools end snapshots that are idle for long.
  const elsewhere = new pg.Client({ connectionString: environment.databaseUrl });
  await elsewhere.connect();
  await elsewhere.query('begin isolation level repeatable read');
  await elsewhere.query('select from organizations');
  await pool.query(`update monitor_live set wake_ms = wake_ms + 10 * ${INTERVAL_MS}`);
  const dead = await measureTicks(pool, firstMs + INTERVAL_MS / 2, pairs);
  await elsewhere.end();
  const count = MONITORS.toLocaleString('en');
  printRatios(`A tick at ${count} monitors of which none is due`, [
    { name: `clean, ms / ${GOAL_MS}`, values: clean.ticks.map((ms) => ms / GOAL_MS), goal: '<= 1' },
    {
      name: `${count} dead entries under an old snapshot / clean`,
      values: dead.ticks.map((ms, pair) => ms / (clean.ticks[pair] ?? Number.NaN)),
      goal: '<= 2',
    },
  ]);
  console.log(
    `\nMedians: ${median(clean.ticks).toFixed(2)} ms clean, ${median(dead.ticks).toFixed(2)} ms with dead entries. The look from the beginning, once a minute: ${clean.firstMs.toFixed(0)} ms clean, ${dead.firstMs.toFixed(0)} ms with dead entries.`,
  );
  await pool.end();
}

/** Each is due at a moment of its own in the interval from `firstMs` on. */
async function seedLiveRows(pool: Pool, firstMs: number): Promise<void> {
  await pool.query(
    `insert into monitor_live (project_id, monitor_key, sweep_bucket, configuration_version, wake_ms, deadline_ms)
     select '00000000-0000-7000-8000-000000000000', gen_random_uuid(), i % 64, 1, v.due, v.due
     from generate_series(1, ${MONITORS}) i, lateral (select $1 + (i * 7919::bigint) % ${INTERVAL_MS} as due) v`,
    [firstMs],
  );
  await pool.query('vacuum analyze monitor_live');
}

/** Ticks of one sweeper while beats could be accepted up to `horizonMs`, which moves with each; medians of TICKS of them. */
async function measureTicks(
  pool: Pool,
  horizonMs: number,
  pairs: number,
): Promise<{ firstMs: number; ticks: number[] }> {
  await moveClock(pool, horizonMs);
  const sweep = makeSweep(pool);
  const timed = async () => {
    await pool.query('update service_clock set last_ms = last_ms + $1', [TICK_MS]);
    const startedAt = performance.now();
    if ((await sweep.run()) !== 'idle') throw new Error('A monitor was due.');
    return performance.now() - startedAt;
  };
  const firstMs = await timed();
  const ticks: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    const times: number[] = [];
    for (let tick = 0; tick < TICKS; tick += 1) times.push(await timed());
    ticks.push(median(times));
  }
  return { firstMs, ticks };
}
