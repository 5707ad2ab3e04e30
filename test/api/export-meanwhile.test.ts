// What changes beside an export: monitors that are made again, partitions that are dropped, projects without anything.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newUuid } from '../../src/domain/id.ts';
import { findProjectsWithMonitors } from '../../src/store/monitors/monitors-by-key.ts';
import { dropPartitions, OBSERVATIONS } from '../../src/store/postgres/partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { cellsOf, ofType, recordsOf } from '../support/export-reader.ts';
import { rowsReadBy } from '../support/pages.ts';
import { daysAgo, HOUR_MS, insertBeats, makePartition } from '../support/past-beats.ts';
import {
  type SeedMonitor,
  type SeedProject,
  seedMonitor,
  seedMonitors,
  seedProject,
} from '../support/seed.ts';
import { statementsOf } from '../support/statements.ts';
import { homeOf, orderOf, readAll, streamOf, withHome } from './export-order.ts';

let fixture: ProjectFixture;
beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

/** The export of one project alone. */
const orderOfProject = async (scope: SeedProject, format: 'ndjson' | 'csv' = 'ndjson') =>
  await orderOf(fixture, format, { scope });

const hourAgo = (count: number) =>
  Array.from({ length: count }, (_, place) => ({ atMs: Date.now() - HOUR_MS + place }));

it('a monitor that is made again under its id beside an export, and its observations, are in it once', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const old = await seedKeyed(project, '1');
  await insertBeats(pool, old, hourAgo(5));
  const order = await orderOfProject(project);
  let isMade = false;
  let text = '';
  const makeAgain = async () => {
    if (isMade || !text.includes('"observation"')) return;
    isMade = true;
    for (const table of ['monitors', 'monitor_live'])
      await pool.query(`delete from ${table} where monitor_key = $1`, [old.monitorKey]);
    const created_at = new Date(homeOf(order).span.startedMs + 2);
    const made = await seedKeyed(project, '2', { monitor_id: old.monitorId, created_at });
    await insertBeats(pool, made, hourAgo(5));
  };
  for await (const piece of streamOf(fixture, order)) {
    text += piece.toString();
    await makeAgain();
  }
  const records = recordsOf(text);
  expect(ofType(records, 'monitor')).toHaveLength(1);
  const sequences = ofType(records, 'observation').map(({ sequence }) => sequence);
  expect(isMade).toBe(true);
  expect(new Set(sequences).size).toBe(sequences.length);
});

/** A monitor whose key begins so, which is its place in the export. */
async function seedKeyed(
  project: SeedProject,
  digit: string,
  columns: Record<string, unknown> = {},
): Promise<SeedMonitor> {
  const monitorKey = `${digit}0000000-0000-4000-8000-000000000000`;
  const monitor = await seedMonitor(fixture.pool, project, {
    configuration: { monitor_key: monitorKey, ...columns },
    live: { monitor_key: monitorKey },
  });
  return { ...monitor, monitorKey };
}

it('a monitor that is made at the very start is in the export, one that is made later is not', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const order = await orderOfProject(project);
  const madeAt = async (ms: number): Promise<SeedMonitor> => {
    const monitor = await seedMonitor(pool, project, { configuration: { created_at: new Date(ms) } });
    await insertBeats(pool, monitor, hourAgo(1));
    return monitor;
  };
  const first = await madeAt(homeOf(order).span.startedMs);
  await madeAt(homeOf(order).span.startedMs + 2);
  const records = recordsOf(await readAll(streamOf(fixture, order)));
  for (const type of ['monitor', 'observation'] as const)
    expect(ofType(records, type).map(({ monitorId }) => monitorId)).toEqual([first.monitorId]);
});

it('a partition is dropped while the reader of an export stands still, and the export ends with all the others', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const monitor = await seedMonitor(pool, project);
  const name = await makePartition(pool, daysAgo(31));
  await insertBeats(pool, monitor, [
    ...Array.from({ length: 10 }, (_, place) => ({ atMs: daysAgo(31) + place * HOUR_MS })),
    ...hourAgo(10),
  ]);
  // As one that began yesterday.
  const order = await orderOfProject(project, 'csv');
  const keptFromMs = daysAgo(31);
  const span = { ...homeOf(order).span, observationsFromMs: keptFromMs };
  const stream = streamOf(fixture, withHome(order, { keptFromMs, span }));
  await stream.next();
  const first = [await stream.next(), await stream.next()].map(({ value }) => String(value)).join('');
  expect(cellsOf(first)[0]?.[3]).toBe('1');
  const connection = await pool.connect();
  try {
    expect(await dropPartitions(connection, OBSERVATIONS)).toEqual({ names: [name], failures: [] });
  } finally {
    connection.release();
  }
  const rest = cellsOf(await readAll(stream)).map((row) => Number(row[3]));
  expect(rest.slice(-10)).toEqual(Array.from({ length: 10 }, (_, place) => 11 + place));
  // One page was read ahead.
  expect(rest.length).toBeLessThanOrEqual(13);
});

it('very many projects without monitors take few statements', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const { organizationId } = project;
  const ids = Array.from({ length: 2_000 }, () => newUuid());
  await pool.query(
    `insert into projects (project_id, organization_id, name, name_key)
     select id, $2, id::text, id::text from unnest($1::uuid[]) as id`,
    [ids, organizationId],
  );
  const monitor = await seedMonitor(pool, project);
  await insertBeats(pool, monitor, hourAgo(1));
  const order = await orderOf(fixture, 'csv', { scope: { organizationId }, pages: undefined });
  let table = '';
  const sent = await statementsOf(async () => {
    table = await readAll(streamOf(fixture, order));
  });
  const [, ...rows] = cellsOf(table);
  expect(rows.map((row) => row[1])).toEqual([monitor.monitorId]);
  expect(sent.length).toBeLessThan(50);
});

it('which projects have monitors is one probe a project, however many monitors they have', async () => {
  const { pool } = fixture;
  const [many, one, none] = [await seedProject(pool), await seedProject(pool), await seedProject(pool)];
  await seedMonitors(pool, many, 3_000);
  await seedMonitor(pool, one);
  await pool.query('analyze monitors');
  const ids = [many, one, none].map(({ projectId }) => projectId);
  let found: Set<string> | undefined;
  const read = await rowsReadBy(pool, 'find-projects-with-monitors', async (db) => {
    found = await findProjectsWithMonitors(db, ids);
  });
  expect(found).toEqual(new Set([many.projectId, one.projectId]));
  expect(read).toBe(2);
});
