// The 99th percentile of a beat at seven tenths of what the server can do, with beats at random moments, against the same
// application without a database at the same rate.
import type { Pool } from '../src/store/postgres/pool.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { type PhaseResult, prepareBeats } from './load.ts';
import { median, percentile, printRatios, ratiosTo } from './table.ts';

const CONNECTIONS = 256;
const SHARE = 0.7;
const FLUSHES = 500;

export async function measureLatency(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  const [durable = 0, without = 0] = await Promise.all(
    ['batches', 'no-database'].map((way) => environment.startServer('ping-server.ts', [way])),
  );
  const run = async (port: number, ratePerSecond?: number): Promise<PhaseResult> => {
    const warm = { seconds: 1, ratePerSecond };
    const phases = [warm, { seconds, ratePerSecond }];
    const [, result] = await load.arrive({ port, connections: CONNECTIONS, phases });
    if (!result || result.failed + result.refused > 0) throw new VoidMeasurement('Beats were refused.');
    return result;
  };
  // By the same program: it uses the same part of the machine then.
  const most = await run(durable);
  const ratePerSecond = Math.round((most.ok / seconds) * SHARE);
  const figures = { durable: [] as PhaseResult[], without: [] as PhaseResult[] };
  const flushes: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    flushes.push(await flushMs(pool));
    figures.without.push(await run(without, ratePerSecond));
    figures.durable.push(await run(durable, ratePerSecond));
  }
  const p99 = (results: readonly PhaseResult[]) => results.map(({ p99Ms }) => p99Ms);
  const p50 = (results: readonly PhaseResult[]) => results.map(({ p50Ms }) => p50Ms);
  printRatios(`/ping, ${ratePerSecond.toLocaleString('en')} beats a second at random moments`, [
    {
      name: '99th percentile, durable / no database',
      values: ratiosTo(p99(figures.without), p99(figures.durable)),
      goal: '<= 1.3',
    },
    {
      name: 'median, durable / no database',
      values: ratiosTo(p50(figures.without), p50(figures.durable)),
    },
  ]);
  const ms = (values: readonly number[]) => `${median(values).toFixed(1)} ms`;
  console.log(
    `\nMedians: 99 % within ${ms(p99(figures.durable))} durable, ${ms(p99(figures.without))} without a database; half within ${ms(p50(figures.durable))} and ${ms(p50(figures.without))}. A commit of one row by itself: 99 % within ${ms(flushes)}.`,
  );
  await pool.end();
}

/** The 99th percentile of commits of one row, one after the other, with nothing else to do. */
async function flushMs(pool: Pool): Promise<number> {
  await pool.query('create table if not exists bench_flushes (at timestamptz)');
  const times: number[] = [];
  for (let count = 0; count < FLUSHES; count += 1) {
    const startedAt = performance.now();
    await pool.query('insert into bench_flushes values (now())');
    times.push(performance.now() - startedAt);
  }
  return percentile(
    times.sort((a, b) => a - b),
    0.99,
  );
}
