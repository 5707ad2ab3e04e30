// Durable beats a second through /ping while each flush of the log takes a millisecond more, against the same server
// without. Postgres itself adds it (`commit_delay`), before the flush, as a slower disk would after.
import { openPool } from '../src/store/postgres/pool.ts';
import { seedMonitors, seedProject } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';
import { Load } from './load.ts';
import { printRatios } from './table.ts';
import { VoidMeasurement } from './void-measurement.ts';

const MONITORS = 20_000;
const SLOWER_US = 1_000;

export async function measureSlowCommits(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { databaseUrl } = environment;
  const pool = openPool({ databaseUrl, size: 1, applicationName: 'bench', statementTimeoutMs: 60_000 });
  // Otherwise it waits only while other transactions are open.
  await pool.query('alter system set commit_siblings = 0');
  const setDelay = async (us: number) => {
    await pool.query(`alter system set commit_delay = ${us}`);
    await pool.query('select pg_reload_conf()');
  };
  const monitors = await seedMonitors(pool, await seedProject(pool), MONITORS);
  await pool.query('vacuum analyze');
  const load = await Load.prepare(
    environment.folder,
    monitors.map(({ address }) => `/ping/${address}`),
  );
  const port = await environment.startServer('ping-server.ts', ['batches']);
  const run = async (connections: number, delayUs: number) => {
    await setDelay(delayUs);
    const { requestsPerSecond, failures } = await load.run({ port, connections, seconds });
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    return requestsPerSecond;
  };
  await run(64, 0);
  const ratios = [
    { connections: 256, goal: '>= 0.85', values: [] as number[] },
    { connections: 64, goal: '>= 0.55', values: [] as number[] },
  ];
  for (const { connections, values } of ratios) {
    for (let pair = 0; pair < pairs; pair += 1) {
      const usual = await run(connections, 0);
      values.push((await run(connections, SLOWER_US)) / usual);
    }
  }
  printRatios(
    `/ping, each flush ${SLOWER_US / 1_000} ms slower / as it is (${load.program})`,
    ratios.map(({ connections, ...rest }) => ({ name: `${connections} connections`, ...rest })),
  );
  await pool.end();
}
