// What a beat writes, by counters that no noise touches: bytes of the write-ahead log, updates that leave the indexes alone
// (HOT), beats in one commit. And one hot monitor, in batches against one transaction a beat.
import type { Pool } from '../src/store/postgres/pool.ts';
import { readCounters } from './counters.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { type Load, type LoadPhase, prepareBeats } from './load.ts';
import { median, printRatios, ratiosTo } from './table.ts';

/** So few that a run updates each row several times; more would reach the limit of the plan's cadence. */
const MONITORS = 4_000;
const CONNECTIONS = 64;
const GOAL_BYTES = 450;
/** At most, for one beat to each monitor. */
const ONE_EACH_SECONDS = 60;

export interface BeatCostOptions {
  pairs: number;
  seconds: number;
}

interface Cost {
  walBytes: number;
  hotShare: number;
  beatsInCommit: number;
}

export async function measureBeatCost(environment: Environment, options: BeatCostOptions): Promise<void> {
  await measureWrites(environment, options);
  await measureHotMonitor(environment, options);
}

async function measureWrites(environment: Environment, { pairs, seconds }: BeatCostOptions): Promise<void> {
  const hourly = { configuration: { interval_seconds: 3_600 } };
  const { pool, load } = await prepareBeats(environment, MONITORS, hourly);
  const often: Cost[] = [];
  const once: Cost[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    // The first change of a page after a checkpoint writes the whole page: those are not of the beats that are counted.
    await pool.query('checkpoint');
    await sendBeats(environment, load, { seconds });
    often.push(await measureCost(environment, { pool, load, phase: { seconds } }));
    await endIntervals(pool);
    const phase = { seconds: ONE_EACH_SECONDS, requests: MONITORS };
    once.push(await measureCost(environment, { pool, load, phase }));
  }
  const ratios = (costs: readonly Cost[], when: string) => [
    {
      name: `bytes of write-ahead log / ${GOAL_BYTES}, ${when}`,
      values: costs.map(({ walBytes }) => walBytes / GOAL_BYTES),
      goal: '<= 1',
    },
    {
      name: `HOT updates / updates, ${when}`,
      values: costs.map(({ hotShare }) => hotShare),
      goal: '>= 0.95',
    },
  ];
  printRatios(`What a beat writes, ${CONNECTIONS} connections`, [
    ...ratios(once, 'one beat in each interval'),
    ...ratios(often, 'many beats in an interval'),
  ]);
  const medians = (costs: readonly Cost[]) =>
    `${median(costs.map(({ walBytes }) => walBytes)).toFixed(0)} bytes of write-ahead log a beat, ${median(costs.map(({ beatsInCommit }) => beatsInCommit)).toFixed(1)} beats a commit`;
  console.log(`\nMedians: ${medians(once)}, with one beat in each interval; ${medians(often)}, with many.`);
  await pool.end();
}

/** Makes the last beat of each monitor one interval old, as it is when the next one of a regular job comes. */
async function endIntervals(pool: Pool): Promise<void> {
  await pool.query(
    `update monitor_live set first_beat_ms = v.ms, last_beat_ms = v.ms, last_success_ms = v.ms, anchor_ms = v.ms,
       wake_ms = v.ms + 3605000, deadline_ms = v.ms + 3665000
     from (select (extract(epoch from clock_timestamp()) * 1000)::bigint - 3600000 as ms) v`,
  );
  await pool.query('vacuum analyze monitor_live');
}

async function measureCost(
  environment: Environment,
  { pool, load, phase }: { pool: Pool; load: Load; phase: LoadPhase },
): Promise<Cost> {
  const before = await readCounters(pool);
  const beats = await sendBeats(environment, load, phase);
  const after = await readCounters(pool);
  return {
    walBytes: (after.walBytes - before.walBytes) / beats,
    hotShare: (after.hotUpdates - before.hotUpdates) / (after.updates - before.updates),
    beatsInCommit: beats / (after.commits - before.commits),
  };
}

/** By a server that ends then: Postgres counts what a connection did when it closes. Returns how many. */
async function sendBeats(environment: Environment, load: Load, phase: LoadPhase): Promise<number> {
  const server = await environment.startProcess('ping-server.ts', ['batches']);
  const order = { port: server.port, connections: CONNECTIONS, phases: [phase] };
  const [result] = await load.arrive(order);
  await server.end();
  if (!result || result.failed + result.refused > 0) throw new VoidMeasurement('Beats were refused.');
  return result.ok;
}

async function measureHotMonitor(
  environment: Environment,
  { pairs, seconds }: BeatCostOptions,
): Promise<void> {
  const { pool, load } = await prepareBeats(environment, 1);
  // A monitor may beat ten times a second in the largest plan: here its tokens never run out.
  await pool.query(
    `create function bench_refill() returns trigger language plpgsql as $$ begin new.tokens = null; return new; end $$`,
  );
  await pool.query(
    'create trigger bench_refill before update on monitor_live for each row execute function bench_refill()',
  );
  const [durable, alone] = await Promise.all(
    ['batches', 'one-by-one'].map((way) => environment.startServer('ping-server.ts', [way])),
  );
  const run = async (port = 0) => {
    const result = await load.run({ port, connections: CONNECTIONS, seconds });
    if (result.failures > 0) throw new VoidMeasurement(`${result.failures} beats were refused.`);
    return result.requestsPerSecond;
  };
  const figures = { durable: [] as number[], alone: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.alone.push(await run(alone));
    figures.durable.push(await run(durable));
  }
  printRatios(`Beats of one monitor, ${CONNECTIONS} connections (${load.program})`, [
    {
      name: 'durable / one transaction per beat',
      values: ratiosTo(figures.alone, figures.durable),
      goal: '>= 6',
    },
  ]);
  console.log(
    `\nMedians: ${median(figures.durable).toFixed(0)} durable beats a second, ${median(figures.alone).toFixed(0)} with one transaction per beat.`,
  );
  await pool.end();
}
