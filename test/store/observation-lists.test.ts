// What a page of observations reads.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { listObservations } from '../../src/store/beats/observations-read.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { costsOf } from '../support/pages.ts';
import { type SeedMonitor, seedMonitors } from '../support/seed.ts';

const EACH = 20_000;
let fixture: ProjectFixture;
let monitors: SeedMonitor[];

beforeAll(async () => {
  fixture = await openProjectFixture();
  monitors = await seedMonitors(fixture.pool, fixture.project, 5);
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     select $1, k.monitor_key, n, to_timestamp(n), 'success'
     from generate_series(1, $2::integer) n, unnest($3::uuid[]) k (monitor_key)`,
    [fixture.project.projectId, EACH, monitors.map(({ monitorKey }) => monitorKey)],
  );
});
afterAll(() => fixture?.close());

const readPage = (db: Queryable) => listObservations(db, monitors[2] as SeedMonitor, {}, { limit: 51 });

it('a page of observations reads that page alone, also with a plan for all values', async () => {
  const { pool } = fixture;
  await pool.query('vacuum analyze observations');
  const query = async (text: string, values: unknown[]) => {
    const { pages } = await costsOf(pool, (db) => db.query({ text, values }));
    expect(pages).toBeLessThan(200);
    return await pool.query(text, values);
  };
  const found = await readPage({ query } as unknown as Queryable);
  expect(found.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 51 }, (_, index) => EACH - index),
  );
});
