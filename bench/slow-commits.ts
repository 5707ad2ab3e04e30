// Durable beats a second through /ping while each flush of the write-ahead log takes a millisecond more, against the same
// server without that delay. Postgres adds it before the flush (`commit_delay`); a slower disk would add it after.
import { type Environment, VoidMeasurement } from './environment.ts';
import { prepareBeats } from './load.ts';
import { printRatios } from './table.ts';

const SLOWER_US = 1_000;

export async function measureSlowCommits(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  // Otherwise Postgres delays only while other transactions are open.
  await pool.query('alter system set commit_siblings = 0');
  const setDelay = async (us: number) => {
    await pool.query(`alter system set commit_delay = ${us}`);
    await pool.query('select pg_reload_conf()');
  };
  const port = await environment.startServer('ping-server.ts', ['batches']);
  const run = async (connections: number, delayUs: number) => {
    await setDelay(delayUs);
    const { requestsPerSecond, failures } = await load.run({ port, connections, seconds });
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    return requestsPerSecond;
  };
  await run(64, 0);
  const ratios = [
    { connections: 256, goal: '>= 0.9', values: [] as number[] },
    { connections: 64, goal: '>= 0.6', values: [] as number[] },
  ];
  for (const { connections, values } of ratios) {
    for (let pair = 0; pair < pairs; pair += 1) {
      const undelayed = await run(connections, 0);
      values.push((await run(connections, SLOWER_US)) / undelayed);
    }
  }
  printRatios(
    `/ping, each flush ${SLOWER_US / 1_000} ms slower / without the delay (${load.program})`,
    ratios.map(({ connections, ...rest }) => ({ name: `${connections} connections`, ...rest })),
  );
  await pool.end();
}
