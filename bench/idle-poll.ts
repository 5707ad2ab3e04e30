// One poll of a sweeper at 1,000,000 monitors of which none is due: on a clean index, and while an old snapshot of another
// client keeps the dead entries in the index that a beat of each monitor left.
import pg from 'pg';
import type { Pool } from '../src/store/postgres/pool.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import { makeSweep, moveClock } from '../test/support/sweeper-fixture.ts';
import { openBenchFixture } from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const MONITORS = 1_000_000;
/** Each monitor beats once in this time, at a moment of its own. */
const INTERVAL_MS = 300_000;
const POLLS = 50;
const POLL_MS = 200;
const GOAL_MS = 1;

export async function measureIdlePoll(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const { pool } = await openBenchFixture(environment.databaseUrl);
  const firstMs = (await readNow(pool)) - INTERVAL_MS;
  await seedLiveRows(pool, firstMs);
  // At a time before the first monitor is due.
  const clean = await measurePolls(pool, firstMs - INTERVAL_MS, pairs);
  // Not a connection of our pools, which end transactions that are idle for long.
  const elsewhere = new pg.Client({ connectionString: environment.databaseUrl });
  await elsewhere.connect();
  await elsewhere.query('begin isolation level repeatable read');
  await elsewhere.query('select from organizations');
  await pool.query(`update monitor_live set wake_ms = wake_ms + 10 * ${INTERVAL_MS}`);
  const dead = await measurePolls(pool, firstMs + INTERVAL_MS / 2, pairs);
  await elsewhere.end();
  const count = MONITORS.toLocaleString('en');
  printRatios(`A poll at ${count} monitors of which none is due`, [
    { name: `clean, ms / ${GOAL_MS}`, values: clean.polls.map((ms) => ms / GOAL_MS), goal: '<= 1' },
    {
      name: `${count} dead entries under an old snapshot / clean`,
      values: ratiosTo(clean.polls, dead.polls),
      goal: '<= 1.5',
    },
  ]);
  console.log(
    `\nMedians: ${median(clean.polls).toFixed(2)} ms clean, ${median(dead.polls).toFixed(2)} ms with dead entries. The lookback from the beginning, once a minute: ${clean.firstMs.toFixed(0)} ms clean, ${dead.firstMs.toFixed(0)} ms with dead entries.`,
  );
  await pool.end();
}

/** Makes monitors that are due one by one in the interval that starts at `firstMs`. */
async function seedLiveRows(pool: Pool, firstMs: number): Promise<void> {
  await pool.query(
    `insert into monitor_live (project_id, monitor_key, sweep_bucket, configuration_version, wake_ms, deadline_ms)
     select '00000000-0000-7000-8000-000000000000', gen_random_uuid(), i % 64, 1, v.due, v.due
     from generate_series(1, ${MONITORS}) i, lateral (select $1 + (i * 7919::bigint) % ${INTERVAL_MS} as due) v`,
    [firstMs],
  );
  await pool.query('vacuum analyze monitor_live');
}

/** Polls of one sweeper, with the service clock at `horizonMs` and moving with each poll: medians of POLLS polls. */
async function measurePolls(
  pool: Pool,
  horizonMs: number,
  pairs: number,
): Promise<{ firstMs: number; polls: number[] }> {
  await moveClock(pool, horizonMs);
  const sweep = makeSweep(pool);
  const timed = async () => {
    await pool.query('update service_clock set decided_ms = decided_ms + $1', [POLL_MS]);
    const startedAt = performance.now();
    if ((await sweep.run()) !== 'idle') throw new Error('A monitor was due.');
    return performance.now() - startedAt;
  };
  const firstMs = await timed();
  const polls: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    const times: number[] = [];
    for (let poll = 0; poll < POLLS; poll += 1) times.push(await timed());
    polls.push(median(times));
  }
  return { firstMs, polls };
}
