// Durable beats a second through /ping, against the same application without a database, against one transaction per beat,
// and against single-row updates by pgbench: all in one run, in interleaved pairs.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openPool } from '../src/store/postgres/pool.ts';
import { type Environment, type ServerProcess, VoidMeasurement } from './environment.ts';
import { MONITORS, prepareBeats } from './load.ts';
import { processorTimesOf } from './processor-time.ts';
import { runPgbench } from './programs.ts';
import { median, noiseOf, printRatios, type Ratio, ratiosTo } from './table.ts';

const PGBENCH_CLIENTS = 32;

export interface ThroughputOptions {
  pairs: number;
  seconds: number;
}

export async function measurePingThroughput(
  environment: Environment,
  { pairs, seconds }: ThroughputOptions,
): Promise<void> {
  const { pool, load } = await prepareBeats(environment);
  const start = (way: string) => environment.startProcess('ping-server.ts', [way]);
  const [durable, alone, without] = [
    await start('batches'),
    await start('one-by-one'),
    await start('no-database'),
  ];
  let acknowledged = 0;
  const run = async (server: ServerProcess, connections: number, costs?: BeatCost[]) => {
    const order = { port: server.port, connections, seconds };
    const { result, cost } = await costOf(server, () => load.run(order));
    const { requestsPerSecond, answers, failures } = result;
    if (failures > 0) throw new VoidMeasurement(`${failures} beats were refused.`);
    if (server !== without) acknowledged += answers;
    costs?.push({ api: (cost.api * 1_000) / answers, postgres: (cost.postgres * 1_000) / answers });
    return requestsPerSecond;
  };
  for (const server of [durable, alone, without]) await run(server, 64);

  for (const connections of [64, 256]) {
    const figures = {
      durable: [] as number[],
      alone: [] as number[],
      without: [] as number[],
      pgbench: [] as number[],
    };
    const costs = { durable: [] as BeatCost[], without: [] as BeatCost[] };
    for (let pair = 0; pair < pairs; pair += 1) {
      figures.without.push(await run(without, connections, costs.without));
      figures.durable.push(await run(durable, connections, costs.durable));
      figures.alone.push(await run(alone, connections));
      const updates = await updateRows(environment, seconds);
      if (updates !== undefined) figures.pgbench.push(updates);
    }
    const ratios: Ratio[] = [
      {
        name: 'durable / no database',
        values: ratiosTo(figures.without, figures.durable),
        goal: connections === 64 ? '>= 0.75' : '>= 0.95',
      },
      {
        name: 'durable / one transaction per beat',
        values: ratiosTo(figures.alone, figures.durable),
        goal: connections === 64 ? '>= 4' : '>= 4.5',
      },
    ];
    const hasPgbench = figures.pgbench.length === pairs;
    if (hasPgbench) {
      ratios.push({
        name: `durable / pgbench updates, ${PGBENCH_CLIENTS} clients`,
        values: ratiosTo(figures.pgbench, figures.durable),
      });
    }
    printRatios(`/ping, ${connections} connections (${load.program})`, ratios);
    const perSecond = (values: number[]) => Math.round(median(values)).toLocaleString('en');
    console.log(
      `\nMedians: ${perSecond(figures.durable)} durable beats a second; ${perSecond(figures.without)} without a database; ${perSecond(figures.alone)} with one transaction per beat; ${hasPgbench ? `${perSecond(figures.pgbench)} pgbench updates` : 'pgbench did not run'}. Noise of the runs without a database: ${noiseOf(figures.without)}. Processor time of a beat: ${sayCosts(costs.durable)}; without a database ${sayCosts(costs.without)}.`,
    );
  }
  const { rows } = await pool.query<{ stored: number }>('select count(*) as stored from observations');
  const stored = rows[0]?.stored ?? 0;
  console.log(`\nStored ${stored} observations for ${acknowledged} acknowledged beats.`);
  if (stored < acknowledged) throw new Error('The database does not have all acknowledged beats.');
  await pool.end();
}

/** Microseconds of processor time. */
interface BeatCost {
  api: number;
  postgres: number;
}

/** Milliseconds of processor time that the server and Postgres use for `work`. */
async function costOf<T>(server: ServerProcess, work: () => Promise<T>) {
  let result: T | undefined;
  const before = await server.processorMs();
  const { postgres } = await processorTimesOf(async () => {
    result = await work();
  });
  return { result: result as T, cost: { api: (await server.processorMs()) - before, postgres } };
}

function sayCosts(costs: readonly BeatCost[]): string {
  const [api, postgres] = [median(costs.map((cost) => cost.api)), median(costs.map((cost) => cost.postgres))];
  return `${api.toFixed(0)} µs of the server and ${postgres.toFixed(0)} of Postgres`;
}

/** Transactions a second of pgbench, which updates one row of a narrow table by its key in each. */
async function updateRows(
  { databaseUrl, folder }: Environment,
  seconds: number,
): Promise<number | undefined> {
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
  return await runPgbench({ databaseUrl, script, clients: PGBENCH_CLIENTS, extent: ['-T', seconds] });
}
