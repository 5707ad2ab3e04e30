// Reads of a project of 1,000,000 monitors: a list of 200, and one monitor by its name, each against the same statement by
// pgbench.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listMonitors } from '../src/store/monitors/monitor-list.ts';
import { findMonitors } from '../src/store/monitors/monitors.ts';
import type { Queryable } from '../src/store/postgres/pool.ts';
import { seedCredential } from '../test/support/seed.ts';
import { openBenchFixture } from './bench-fixture.ts';
import { type Environment, VoidMeasurement } from './environment.ts';
import { Load, type PhaseResult } from './load.ts';
import { nameOf, seedManyMonitors } from './many-monitors.ts';
import { type PgbenchLatencies, readPgbenchLatencies } from './programs.ts';
import { statementOf } from './statement-text.ts';
import { median, printRatios, ratiosTo } from './table.ts';

const MONITORS = 1_000_000;
const LIMIT = 200;
const CALLERS = 8;
const ONE = nameOf(MONITORS / 2);

interface Read {
  name: string;
  path: string;
  read: (db: Queryable, projectId: string) => Promise<unknown>;
}

const READS: readonly Read[] = [
  {
    name: `A list of ${LIMIT} out of ${MONITORS.toLocaleString('en')} monitors`,
    path: `/v1/monitors?limit=${LIMIT}`,
    read: (db, projectId) => listMonitors(db, projectId, {}, { limit: LIMIT }),
  },
  {
    name: `One out of ${MONITORS.toLocaleString('en')} monitors`,
    path: `/v1/monitors/${ONE}`,
    read: (db, projectId) => findMonitors(db, { projectId, monitorId: ONE }),
  },
];

export async function measureLists(
  environment: Environment,
  { pairs, seconds }: { pairs: number; seconds: number },
): Promise<void> {
  const { databaseUrl, folder } = environment;
  const { pool, project } = await openBenchFixture(databaseUrl);
  const { projectId } = project;
  await seedManyMonitors(pool, project, MONITORS);
  const headers = `authorization: Bearer ${await seedCredential(pool, { projectId, preset: 'read' })}\r\n`;
  const port = await environment.startServer('api-server.ts', []);
  for (const [place, { name, path, read }] of READS.entries()) {
    const load = await Load.prepare(folder, [path], `read-${place}`);
    const script = join(folder, `read-${place}.sql`);
    await writeFile(script, `${await statementOf(pool, (db) => read(db, projectId))};\n`);
    const call = async (): Promise<PhaseResult> => {
      const [result] = await load.arrive({ port, connections: CALLERS, phases: [{ seconds }], headers });
      if (!result || result.failed + result.refused > 0) throw new VoidMeasurement('Reads were refused.');
      return result;
    };
    const extent = ['-T', seconds] as const;
    const figures = { calls: [] as PhaseResult[], sql: [] as PgbenchLatencies[] };
    await call();
    for (let pair = 0; pair < pairs; pair += 1) {
      figures.sql.push(await readPgbenchLatencies({ databaseUrl, script, clients: CALLERS, extent }, folder));
      figures.calls.push(await call());
    }
    const rates = {
      calls: figures.calls.map(({ ok }) => ok / seconds),
      sql: figures.sql.map(({ perSecond }) => perSecond),
    };
    printRatios(`${name}, ${CALLERS} callers`, [
      {
        name: 'reads a second / the same statement by pgbench',
        values: ratiosTo(rates.sql, rates.calls),
        goal: '>= 0.5',
      },
    ]);
    const [calls, sql] = [sayLatencies(figures.calls), sayLatencies(figures.sql)];
    console.log(
      `\nMedians: ${median(rates.calls).toFixed(0)} reads a second, ${calls}; by pgbench ${median(rates.sql).toFixed(0)}, ${sql}.`,
    );
  }
  await pool.end();
}

function sayLatencies(results: readonly { p50Ms: number; p99Ms: number }[]): string {
  const half = median(results.map(({ p50Ms }) => p50Ms));
  const most = median(results.map(({ p99Ms }) => p99Ms));
  return `half within ${half.toFixed(2)} ms, 99 % within ${most.toFixed(2)} ms`;
}
