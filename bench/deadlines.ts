// 10,000 deadlines at one instant: the time until every incident and delivery is committed. The same run
// copies the same rows by INSERT … SELECT inside Postgres, which is the least that they can cost.

import type { Pool } from '../src/store/postgres/pool.ts';
import { readNow } from '../src/store/postgres/transaction.ts';
import { dueAt, type SeedProject, seedEndpoint, seedMonitors, seedProject } from '../test/support/seed.ts';
import { drain, makeSweep, moveClock } from '../test/support/sweeper-fixture.ts';
import { cpuMsOf, openBenchFixture, readWalBytes } from './bench-fixture.ts';
import type { Environment } from './environment.ts';
import { median, noiseOf, printRatios, ratiosTo } from './table.ts';

export const DEADLINES = 10_000;
const GOAL_MS = 400;
/** Tables that a missed deadline writes, besides the live row. */
const TABLES = ['incidents', 'timeline_entries', 'deliveries'];

export async function measureDeadlines(
  environment: Environment,
  { pairs }: { pairs: number },
): Promise<void> {
  const fixture = await openBenchFixture(environment.databaseUrl);
  const { pool, project } = fixture;
  // The default endpoint: no dispatcher runs, so nothing is sent to it.
  await seedEndpoint(fixture, 'http://127.0.0.1:9/', true);
  await sweepAtOneInstant(pool, project);
  const figures = { sweep: [] as number[], copy: [] as number[], cpu: [] as number[], wal: [] as number[] };
  for (let pair = 0; pair < pairs; pair += 1) {
    const swept = await sweepAtOneInstant(pool, project);
    figures.sweep.push(swept.wallMs);
    figures.cpu.push((swept.cpuMs / DEADLINES) * 1_000);
    figures.wal.push(swept.walBytes / DEADLINES);
    figures.copy.push(await copyRows(pool, project));
  }
  printRatios(`${DEADLINES.toLocaleString('en')} deadlines at one instant`, [
    {
      name: `until all is committed, ms / ${GOAL_MS}`,
      values: figures.sweep.map((ms) => ms / GOAL_MS),
      goal: '<= 1',
    },
    { name: 'sweep / the same rows by INSERT … SELECT', values: ratiosTo(figures.copy, figures.sweep) },
  ]);
  console.log(
    `\nMedians: ${median(figures.sweep).toFixed(0)} ms swept, ${median(figures.copy).toFixed(0)} ms copied (noise ${noiseOf(figures.copy)}); ${median(figures.cpu).toFixed(0)} µs of the sweeper's processor time and ${median(figures.wal).toFixed(0)} bytes of write-ahead log per deadline.`,
  );
  await pool.end();
}

interface Swept {
  wallMs: number;
  cpuMs: number;
  walBytes: number;
}

async function sweepAtOneInstant(pool: Pool, project: SeedProject): Promise<Swept> {
  await pool.query(`truncate monitors, monitor_live, publish_addresses, ${TABLES.join(', ')}`);
  await seedDueMonitors(pool, project);
  const sweep = makeSweep(pool);
  const walBefore = await readWalBytes(pool);
  const startedAt = performance.now();
  const cpuMs = await cpuMsOf(() => drain(sweep));
  const wallMs = performance.now() - startedAt;
  const { rows } = await pool.query<{ opened: number }>('select count(*) as opened from deliveries');
  if (rows[0]?.opened !== DEADLINES) throw new Error(`The sweep wrote ${rows[0]?.opened} deliveries.`);
  return { wallMs, cpuMs, walBytes: (await readWalBytes(pool)) - walBefore };
}

export async function seedDueMonitors(pool: Pool, project: SeedProject): Promise<void> {
  const dueMs = await readNow(pool);
  await seedMonitors(pool, project, DEADLINES, {
    configuration: { labels: { app: 'billing', team: 'payments' } },
    ...dueAt(dueMs),
  });
  await moveClock(pool, dueMs);
  await pool.query('vacuum analyze');
  await pool.query('checkpoint');
}

/** Writes the rows that the sweep has just written once more, for another project, by statements inside Postgres. */
async function copyRows(pool: Pool, project: SeedProject): Promise<number> {
  const other = await seedProject(pool);
  await seedDueMonitors(pool, other);
  for (const table of TABLES) {
    await pool.query(
      `create unlogged table bench_${table} as select * from ${table} where project_id = '${project.projectId}'`,
    );
    await pool.query(`update bench_${table} set project_id = '${other.projectId}'`);
  }
  const connection = await pool.connect();
  const startedAt = performance.now();
  await connection.query('begin');
  for (const table of TABLES) await connection.query(`insert into ${table} select * from bench_${table}`);
  await connection.query(
    `update monitor_live set wake_ms = null, deadline_ms = null, open_incidents = 1,
       changed_xid = pg_current_xact_id() where project_id = $1`,
    [other.projectId],
  );
  await connection.query('commit');
  const wallMs = performance.now() - startedAt;
  connection.release();
  await pool.query(`drop table ${TABLES.map((table) => `bench_${table}`).join(', ')}`);
  return wallMs;
}
