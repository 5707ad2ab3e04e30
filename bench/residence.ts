// Durable beats a second of an api whose monitors are in two databases, half of them in each, against one whose monitors are
// all in one. Both databases are on one Postgres: what differs is the way of a beat, not the machine.
import { migrate } from '../src/store/postgres/migrate.ts';
import { openPool } from '../src/store/postgres/pool.ts';
import { copyAll } from '../test/support/directory-fixture.ts';
import { seedMonitors, seedProject } from '../test/support/seed.ts';
import { type Environment, type ServerProcess, VoidMeasurement } from './environment.ts';
import { Load, MONITORS } from './load.ts';
import { processorTimesOf } from './processor-time.ts';
import { median, printRatios, ratiosTo } from './table.ts';

interface Way {
  server: ServerProcess;
  load: Load;
  figures: number[];
  /** Milliseconds of processor time, and the beats that took them. */
  api: number;
  postgres: number;
  beats: number;
}

export async function measureResidence(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { one, two, eu, program } = await prepare(environment);
  let acknowledged = 0;
  for (const way of [one, two]) await run(way, 64, seconds);
  for (const connections of [64, 256]) {
    for (const way of [one, two]) Object.assign(way, { figures: [], api: 0, postgres: 0, beats: 0 });
    for (let pair = 0; pair < pairs; pair += 1)
      for (const way of [one, two]) way.figures.push(await run(way, connections, seconds));
    printRatios(`/ping with two databases, ${connections} connections (${program})`, [
      {
        name: 'half of the monitors in each / all in one',
        values: ratiosTo(one.figures, two.figures),
        goal: '>= 0.9',
      },
    ]);
    console.log(`\nMedians: ${say(two)} with two databases; ${say(one)} with one.`);
    acknowledged += two.beats;
  }
  const { rows } = await eu.query<{ stored: number }>('select count(*) as stored from observations');
  const stored = rows[0]?.stored ?? 0;
  console.log(`\nOf ${acknowledged} beats and those of the warm-up ${stored} are in the second database.`);
  await eu.end();
  if (stored < acknowledged / 3) throw new Error('The second database does not have its half of the beats.');
}

/** The default database has all monitors that one api beats; the other api beats half of them, and as many in `eu`. */
async function prepare({ databaseUrl, folder, startProcess }: Environment) {
  const main = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 60_000 });
  await main.query('create database bench_eu');
  const euUrl = new URL(databaseUrl);
  euUrl.pathname = '/bench_eu';
  await migrate({ databaseUrl: euUrl.href });
  const eu = openPool({
    databaseUrl: euUrl.href,
    size: 2,
    applicationName: 'bench',
    statementTimeoutMs: 60_000,
  });
  const project = await seedProject(main);
  await copyAll(main, { jurisdiction: 'eu', pool: eu });
  const here = await seedMonitors(main, project, MONITORS);
  const there = await seedMonitors(eu, project, MONITORS / 2, { configuration: { jurisdiction: 'eu' } });
  for (const pool of [main, eu]) await pool.query('vacuum analyze');
  await main.end();
  const prepareWay = async (name: string, monitors: readonly { address: string }[], places: object[]) => {
    // Addresses are random, so their order is.
    const paths = monitors.map(({ address }) => `/ping/${address}`).sort();
    const load = await Load.prepare(folder, paths, name);
    const server = await startProcess('api-server.ts', [JSON.stringify(places)]);
    return { server, load, figures: [], api: 0, postgres: 0, beats: 0 } satisfies Way;
  };
  const one: Way = await prepareWay('one', here, []);
  const places = [{ jurisdiction: 'eu', databaseUrl: euUrl.href }];
  const two: Way = await prepareWay('two', [...here.slice(0, MONITORS / 2), ...there], places);
  return { one, two, eu, program: one.load.program };
}

/** Beats a second. */
async function run(way: Way, connections: number, seconds: number): Promise<number> {
  const { server, load } = way;
  const before = await server.processorMs();
  let perSecond = 0;
  const { postgres } = await processorTimesOf(async () => {
    const { requestsPerSecond, answers, failures } = await load.run({
      port: server.port,
      connections,
      seconds,
    });
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    perSecond = requestsPerSecond;
    way.beats += answers;
  });
  way.postgres += postgres;
  way.api += (await server.processorMs()) - before;
  return perSecond;
}

function say({ figures, api, postgres, beats }: Way): string {
  const us = (ms: number) => ((ms * 1_000) / beats).toFixed(0);
  const perSecond = Math.round(median(figures)).toLocaleString('en');
  return `${perSecond} durable beats a second, ${us(api)} µs of the api and ${us(postgres)} of Postgres for each`;
}
