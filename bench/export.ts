// The export of a project against COPY of the same observations: rows a second, and the memory of the server.

import { createPartitions, OBSERVATIONS } from '../src/store/postgres/partitions.ts';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { setLastSequences } from '../test/support/past-beats.ts';
import { seedCredential, seedMonitors, seedProject } from '../test/support/seed.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const MONITORS = 1_000;
/** `BEATKEEPER_BENCH_ROWS` states another number. */
const ROWS = Number(process.env.BEATKEEPER_BENCH_ROWS ?? 1_000_000);
const DAYS = 7;
const MEGABYTE = 1024 * 1024;
const FORMATS = ['ndjson', 'csv'] as const;

export async function measureExport(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const { databaseUrl } = environment;
  const pool = openPool({ databaseUrl, size: 2, applicationName: 'bench', statementTimeoutMs: 3_600_000 });
  const token = await seedHistory(pool);
  const server = await environment.startProcess('api-server.ts', []);
  const url = `http://127.0.0.1:${server.port}/v1/organization/export`;
  const read = (format: string) => readRows(`${url}?format=${format}`, token);
  for (const format of FORMATS) await readRows(`${url}?format=${format}`, token, 100_000);
  const before = await server.memory();
  let most = before;
  const watch = setInterval(async () => {
    most = Math.max(most, await server.memory());
  }, 1_000);
  const figures = { copy: [] as number[], ndjson: [] as number[], csv: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.copy.push(await copyRows(pool));
    for (const format of FORMATS) figures[format].push(await read(format));
  }
  clearInterval(watch);
  printRatios(
    `Export of ${ROWS.toLocaleString('en')} observations of ${MONITORS.toLocaleString('en')} monitors`,
    [
      {
        name: 'rows a second as JSON Lines / COPY',
        values: ratiosTo(figures.copy, figures.ndjson),
        goal: '>= 0.4',
      },
      { name: 'rows a second as CSV / COPY', values: ratiosTo(figures.copy, figures.csv), goal: '>= 0.4' },
    ],
  );
  const perSecond = (values: readonly number[]) => Math.round(median(values)).toLocaleString('en');
  const megabytes = (bytes: number) => (bytes / MEGABYTE).toFixed(0);
  console.log(
    `\nMedians: ${perSecond(figures.ndjson)} rows a second as JSON Lines, ${perSecond(figures.csv)} as CSV, ${perSecond(figures.copy)} by COPY. Memory of the server: ${megabytes(before)} MiB before, ${megabytes(most)} MiB at most.`,
  );
  await server.end();
  await pool.end();
}

/** Beats of a week in the order of time, as they come. Returns a credential. */
async function seedHistory(pool: Pool): Promise<string> {
  const project = await seedProject(pool);
  const { projectId } = project;
  await seedMonitors(pool, project, MONITORS);
  const connection = await pool.connect();
  await createPartitions(connection, OBSERVATIONS);
  for (let day = DAYS; day > 0; day -= 1)
    await connection.query(
      `select add_partition('observations', 'observations_' || to_char(clock_timestamp() at time zone 'UTC' - $1 * interval '1 day', 'YYYYMMDD'))`,
      [day],
    );
  connection.release();
  const beats = Math.ceil(ROWS / MONITORS);
  const aDay = Math.ceil(beats / DAYS);
  for (let first = 1; first <= beats; first += aDay)
    await pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind, measurements)
       select project_id, monitor_key, n,
         date_trunc('day', clock_timestamp(), 'UTC') + (n - 1 - $1) * interval '7 days' / $1, 'success',
         case when n % 4 = 0 then '{"rows": 1042}'::jsonb end
       from generate_series($2::bigint, $3::bigint) n, monitors order by n`,
      [beats, first, Math.min(first + aDay - 1, beats)],
    );
  await setLastSequences(pool, projectId);
  await pool.query('vacuum analyze observations');
  return await seedCredential(pool, { projectId, preset: 'read' });
}

/** Rows a second, without the way to a client. */
async function copyRows(pool: Pool): Promise<number> {
  const startedAt = performance.now();
  const { rowCount } = await pool.query("copy (select * from observations) to program 'cat > /dev/null'");
  return (rowCount ?? 0) / ((performance.now() - startedAt) / 1_000);
}

/** Reads an export to its end, or some rows of it, and returns rows a second. */
async function readRows(url: string, token: string, most = Number.POSITIVE_INFINITY): Promise<number> {
  const left = new AbortController();
  const startedAt = performance.now();
  const answer = await fetch(url, {
    headers: { authorization: `Bearer ${token}`, 'accept-encoding': 'identity' },
    signal: left.signal,
  });
  if (answer.status !== 200) throw new VoidMeasurement(`The export was refused: ${answer.status}.`);
  let rows = 0;
  for await (const piece of answer.body ?? []) {
    for (let at = piece.indexOf(0x0a); at >= 0; at = piece.indexOf(0x0a, at + 1)) rows += 1;
    if (rows >= most) break;
  }
  left.abort();
  if (rows < Math.min(ROWS, most)) throw new Error(`The export has ${rows} rows.`);
  return rows / ((performance.now() - startedAt) / 1_000);
}
