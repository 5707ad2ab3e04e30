// Durable beats a second through /ping, against the same application without a database, one transaction a beat, and
// pgbench's single-row updates. Each measured in pairs, interleaved, in one run.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openPool } from '../src/store/postgres/pool.ts';
import { seedMonitors, seedProject } from '../test/support/seed.ts';
import type { Environment } from './environment.ts';
import { isInstalled, Load, outputOf } from './load.ts';
import { median, noiseOf, printRatios, type Ratio } from './table.ts';
import { VoidMeasurement } from './void-measurement.ts';

/** So many that no monitor meets its plan's cadence. */
const MONITORS = 20_000;
const PGBENCH_CLIENTS = 32;

export interface ThroughputOptions {
  pairs: number;
  seconds: number;
}

export async function measurePingThroughput(
  environment: Environment,
  { pairs, seconds }: ThroughputOptions,
): Promise<void> {
  const pool = openPool({
    databaseUrl: environment.databaseUrl,
    size: 2,
    applicationName: 'bench',
    statementTimeoutMs: 60_000,
  });
  const project = await seedProject(pool);
  const monitors = await seedMonitors(pool, project, MONITORS);
  await pool.query('vacuum analyze');
  const load = await Load.prepare(
    environment.folder,
    monitors.map(({ address }) => `/ping/${address}`),
  );
  const [durable, alone, without] = await Promise.all(
    ['batches', 'one-by-one', 'no-database'].map((way) => environment.startServer('ping-server.ts', [way])),
  );
  let acknowledged = 0;
  const run = async (port: number | undefined, connections: number) => {
    const { requestsPerSecond, answers, failures } = await load.run({
      port: port ?? 0,
      connections,
      seconds,
    });
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    if (port !== without) acknowledged += answers;
    return requestsPerSecond;
  };
  for (const port of [durable, alone, without]) await run(port, 64);

  for (const connections of [64, 256]) {
    const figures = {
      durable: [] as number[],
      alone: [] as number[],
      without: [] as number[],
      pgbench: [] as number[],
    };
    for (let pair = 0; pair < pairs; pair += 1) {
      figures.without.push(await run(without, connections));
      figures.durable.push(await run(durable, connections));
      figures.alone.push(await run(alone, connections));
      const updates = await runPgbench(environment, seconds);
      if (updates !== undefined) figures.pgbench.push(updates);
    }
    const against = (others: number[]) =>
      figures.durable.map((value, pair) => value / (others[pair] ?? Number.NaN));
    const ratios: Ratio[] = [
      {
        name: 'durable / no database',
        values: against(figures.without),
        goal: connections === 64 ? '>= 0.60' : '>= 0.75',
      },
      {
        name: 'durable / one transaction a beat',
        values: against(figures.alone),
        goal: connections === 64 ? '>= 2.5' : '>= 3.0',
      },
    ];
    const hasPgbench = figures.pgbench.length === pairs;
    if (hasPgbench) {
      ratios.push({
        name: `durable / pgbench updates, ${PGBENCH_CLIENTS} clients`,
        values: against(figures.pgbench),
      });
    }
    printRatios(`/ping, ${connections} connections (${load.program})`, ratios);
    const perSecond = (values: number[]) => Math.round(median(values)).toLocaleString('en');
    console.log(
      `\nMedians: ${perSecond(figures.durable)} durable beats a second; ${perSecond(figures.without)} without a database; ${perSecond(figures.alone)} one transaction each; ${hasPgbench ? `${perSecond(figures.pgbench)} pgbench updates` : 'pgbench did not run'}. Noise of the run without a database: ${noiseOf(figures.without)}.`,
    );
  }
  const { rows } = await pool.query<{ stored: number }>('select count(*) as stored from observations');
  const stored = rows[0]?.stored ?? 0;
  console.log(`\nStored ${stored} observations for ${acknowledged} acknowledged beats.`);
  if (stored < acknowledged) throw new Error('Acknowledged beats are missing.');
  await pool.end();
}

/** pgbench, updating one row of a narrow table by its key in each transaction. Undefined where it is not there or fails. */
async function runPgbench(
  { databaseUrl, folder }: Environment,
  seconds: number,
): Promise<number | undefined> {
  const program = await findPgbench();
  if (!program) return undefined;
  const script = join(folder, 'pgbench.sql');
  await writeFile(
    script,
    `\\set id random(1, ${MONITORS})\nupdate bench_rows set beats = beats + 1, seen = clock_timestamp() where id = :id;\n`,
  );
  const pool = openPool({ databaseUrl, size: 1, applicationName: 'bench' });
  await pool.query(
    'create table if not exists bench_rows (id integer primary key, beats bigint not null, seen timestamptz) with (fillfactor = 70)',
  );
  await pool.query(
    `insert into bench_rows select id, 0, now() from generate_series(1, ${MONITORS}) id on conflict do nothing`,
  );
  await pool.end();
  const args = [
    '-n',
    '-M',
    'prepared',
    '-c',
    String(PGBENCH_CLIENTS),
    '-j',
    '1',
    '-T',
    String(seconds),
    '-f',
    script,
    databaseUrl,
  ];
  const output = await outputOf(program, args).catch(() => '');
  const perSecond = Number(/tps = ([\d.]+)/.exec(output)?.[1] ?? 0);
  return perSecond > 0 ? perSecond : undefined;
}

async function findPgbench(): Promise<string | undefined> {
  const places = [
    'pgbench',
    ...[18, 17, 16, 15].map((version) => `/usr/lib/postgresql/${version}/bin/pgbench`),
  ];
  for (const place of places) if (await isInstalled(place)) return place;
  return undefined;
}
