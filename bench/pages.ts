// Pages of 50 monitors by GET /v1/monitors in a project of 500,000: the first page against the same SQL by pgbench, and page
// 10,000 against the first one.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listMonitors, type MonitorPosition } from '../src/store/monitors/monitor-list.ts';
import type { Queryable } from '../src/store/postgres/pool.ts';
import { pagesOf } from '../test/support/pages.ts';
import { seedCredential, seedProject } from '../test/support/seed.ts';
import { openBenchFixture } from './bench-fixture.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { Load } from './load.ts';
import { nameOf, seedManyMonitors } from './many-monitors.ts';
import { runPgbench } from './programs.ts';
import { statementOf } from './statement-text.ts';
import { median, printRatios, type Ratio, ratiosTo } from './table.ts';

const LIMIT = 50;
const DEEP_PAGE = 10_000;
const BEFORE_DEEP_PAGE = (DEEP_PAGE - 1) * LIMIT;
const CALLERS = 8;
/** Of one run: all runs together stay below the calls that a plan allows in a minute. */
const CALLS = 504;
const RUN_LIMIT_SECONDS = 60;

export async function measurePages(environment: Environment, { pairs }: { pairs: number }): Promise<void> {
  const { pool } = await openBenchFixture(environment.databaseUrl);
  const project = await seedProject(pool);
  await seedManyMonitors(pool, project, BEFORE_DEEP_PAGE + 2 * LIMIT);
  const { projectId } = project;
  const authorization = `authorization: Bearer ${await seedCredential(pool, { projectId, preset: 'read' })}\r\n`;
  const port = await environment.startServer('api-server.ts', []);
  const first = await Load.prepare(environment.folder, [`/v1/monitors?limit=${LIMIT}`], 'first');
  const cursor = deepCursorOf(await readCursor(port, authorization));
  const path = `/v1/monitors?limit=${LIMIT}&cursor=${cursor}`;
  const deep = await Load.prepare(environment.folder, [path], 'deep');
  const run = async (load: Load) => {
    const phases = [{ seconds: RUN_LIMIT_SECONDS, requests: CALLS }];
    const order = { port, connections: CALLERS, phases, headers: authorization };
    const [result] = await load.arrive(order);
    if (!result || result.ok < CALLS) throw new VoidMeasurement('Pages were refused.');
    return result.ok / result.seconds;
  };
  const script = join(environment.folder, 'page.sql');
  await writeFile(
    script,
    `${await statementOf(pool, (db) => listMonitors(db, projectId, {}, { limit: LIMIT }))};\n`,
  );
  const figures = { first: [] as number[], deep: [] as number[], sql: [] as number[] };
  await run(first);
  for (let pair = 0; pair < pairs; pair += 1) {
    figures.first.push(await run(first));
    figures.deep.push(await run(deep));
    const { databaseUrl } = environment;
    const extent = ['-t', CALLS / CALLERS] as const;
    const perSecond = await runPgbench({ databaseUrl, script, clients: CALLERS, extent });
    if (perSecond !== undefined) figures.sql.push(perSecond);
  }
  const hasPgbench = figures.sql.length === pairs;
  const ratios: Ratio[] = [
    {
      name: `time of page ${DEEP_PAGE.toLocaleString('en')} / page 1`,
      values: ratiosTo(figures.deep, figures.first),
      goal: '<= 1.05',
    },
  ];
  if (hasPgbench)
    ratios.unshift({
      name: 'pages a second / the same SQL by pgbench',
      values: ratiosTo(figures.sql, figures.first),
      goal: '>= 0.5',
    });
  printRatios(`A page of ${LIMIT} monitors, ${CALLERS} callers`, ratios);
  const perSecond = (values: readonly number[]) => median(values).toFixed(0);
  const deepName = nameOf(BEFORE_DEEP_PAGE);
  const after = { monitorId: deepName, nameKey: deepName, jurisdiction: 'unrestricted' } as const;
  const blocksOf = (page: { limit: number; after?: MonitorPosition }) =>
    pagesOf(pool, (db) => listMonitors(db as Queryable, projectId, {}, page));
  console.log(
    `\nMedians: ${perSecond(figures.first)} pages a second, ${hasPgbench ? `${perSecond(figures.sql)} by pgbench` : 'pgbench did not run'}. Blocks of 8 KiB read: ${await blocksOf({ limit: LIMIT })} for page 1, ${await blocksOf({ limit: LIMIT, after })} for page ${DEEP_PAGE.toLocaleString('en')}.`,
  );
  await pool.end();
}

async function readCursor(port: number, authorization: string): Promise<string> {
  const [name = '', value = ''] = authorization.trim().split(': ');
  const answer = await fetch(`http://127.0.0.1:${port}/v1/monitors?limit=${LIMIT}`, {
    headers: { [name]: value },
  });
  const { nextCursor } = (await answer.json()) as { nextCursor?: string };
  if (!nextCursor) throw new Error(`The first page has no cursor: ${answer.status}.`);
  return nextCursor;
}

/** The cursor of the deep page, made from that of the first one: its place in the list is inside as text. */
function deepCursorOf(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString('utf8');
  const deep = text.replaceAll(nameOf(LIMIT), nameOf(BEFORE_DEEP_PAGE));
  if (deep === text) throw new Error('The cursor has another form.');
  return Buffer.from(deep, 'utf8').toString('base64url');
}
