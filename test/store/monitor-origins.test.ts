// The statements of origins in a project with many monitors: each finds its rows by an index.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { listMonitors } from '../../src/store/monitors/monitor-list.ts';
import {
  findOriginHolder,
  findOrigins,
  findReported,
  writeReport,
} from '../../src/store/monitors/monitor-origins.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';

let fixture: ProjectFixture;
let monitors: SeedMonitor[];
beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool, project } = fixture;
  monitors = await seedMonitors(pool, project, 5_000);
  await pool.query(`update monitors set origin_kind = 'Monitor', origin_namespace = 'payments',
    origin_name = monitor_id, origin_uid = monitor_id,
    orphaned_at = case when monitor_id < 'mon_04' then now() end`);
  await pool.query('analyze');
});
afterAll(() => fixture?.close());

interface Statement {
  text: string;
  values: unknown[];
}

/** Explains statements in place of running them. */
function explainer() {
  const plans: string[] = [];
  const query = async (statement: Statement | string, given: unknown[] = []) => {
    const { text, values } = typeof statement === 'string' ? { text: statement, values: given } : statement;
    const { rows } = await fixture.pool.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values);
    plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'));
    return { rows: [], rowCount: 0 };
  };
  return { plans, db: { query } as unknown as Queryable };
}

it('every statement of origins reads an index, and none the table of monitors', async () => {
  const { plans, db } = explainer();
  const { projectId } = fixture.project;
  const some = monitors.slice(0, 10);
  const ids = some.map(({ monitorId }) => monitorId);
  const origin = { kind: 'Monitor', namespace: 'payments', name: ids[0] ?? '' } as const;
  await listMonitors(db, projectId, { origin: 'orphaned' }, { limit: 50 });
  expect(plans.at(-1)).toContain('monitors_orphaned');
  await listMonitors(db, projectId, { origin }, { limit: 50 });
  expect(plans.at(-1)).toContain('monitors_origin');
  await findOriginHolder(db, projectId, origin);
  expect(plans.at(-1)).toContain('monitors_origin');
  const report = { orphaned: ids.slice(0, 5), seen: ids.slice(5) };
  await findReported(db, projectId, report);
  await findOrigins(db, some);
  await writeReport(db, some, report, 1);
  expect(plans).toHaveLength(6);
  for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on monitors /);
});
