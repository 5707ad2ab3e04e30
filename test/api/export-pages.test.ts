// The pages of an export's history: what they read, how large they are, and what is sent where they have nothing.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXPORT_COLUMNS, EXPORT_FORMATS } from '../../src/contract/resources/export.ts';
import { type Key, LINE_BYTES, PAGES, READ, type Walk } from '../../src/service/tenancy/export-pages.ts';
import { listExportedObservations, type ObservationPlace } from '../../src/store/beats/exported-history.ts';
import type { Database } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { cellsOf } from '../support/export-reader.ts';
import { rowsReadBy, scansBy } from '../support/pages.ts';
import { DAY_MS, daysAgo, HOUR_MS, insertBeats, makePartition } from '../support/past-beats.ts';
import { type SeedProject, seedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { type SentStatement, statementsOf } from '../support/statements.ts';
import { homeOf, orderOf, readAll, streamOf, withHome } from './export-order.ts';

let fixture: ProjectFixture;
beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

/** Of each beat a second later. */
const beatsFrom = (fromMs: number, count: number) =>
  Array.from({ length: count }, (_, place) => ({ atMs: fromMs + place * 1_000 }));
/** Each part without lines has a row, or a checkpoint. */
const ALWAYS = { quietMs: 0 };
const cursorOf = (row: readonly string[]) => row.at(-1) ?? '';
/** A row of a table that has the cursor alone. */
const hasCursorAlone = (row: readonly string[]) =>
  row.length === EXPORT_COLUMNS.length &&
  row.slice(0, -1).every((cell) => cell === '') &&
  cursorOf(row) !== '';

const SILENT = 20_000;
/** So many monitors are looked at in a statement. */
const LOOKS = SILENT / PAGES.monitors;

async function seedSilent(project: SeedProject, count: number): Promise<void> {
  for (let made = 0; made < count; made += 5_000)
    await seedMonitors(fixture.pool, project, Math.min(5_000, count - made));
  await fixture.pool.query('analyze monitors; analyze monitor_live');
}

it('20,000 monitors that never had a beat take few statements, and each of them sends something', async () => {
  const { pool } = fixture;
  const scope = await seedProject(pool);
  await seedSilent(scope, SILENT);
  const ofHistory = (sent: readonly SentStatement[]) =>
    sent.filter(({ text }) => text.startsWith('with recursive') && /\bobservation/.test(text)).length;
  const table = await orderOf(fixture, 'csv', { scope, pages: undefined });
  let text = '';
  const sent = await statementsOf(async () => {
    text = await readAll(streamOf(fixture, table, ALWAYS));
  });
  expect(ofHistory(sent)).toBe(LOOKS + 1);
  // Each in a transaction, and those that look for projects.
  expect(sent.length).toBeLessThan(4 * LOOKS);
  const [, ...rows] = cellsOf(text);
  expect(rows.filter(hasCursorAlone)).toHaveLength(LOOKS + 1);
  expect(rows).toHaveLength(LOOKS + 1);
  expect(cellsOf(await readAll(streamOf(fixture, table)))).toHaveLength(1);

  const pages = { ...PAGES, wholeMonitors: 2_000 };
  const records = await orderOf(fixture, 'ndjson', { scope, pages });
  const kinds = await statementsOf(async () => {
    text = await readAll(streamOf(fixture, records, ALWAYS));
  });
  // Of observations and of hours.
  expect(ofHistory(kinds)).toBe(2 * (LOOKS + 1));
  const types = text.split('\n').map((line) => /"type":"([a-z.]+)"/.exec(line)?.[1]);
  expect(types.filter((type) => type === 'monitor')).toHaveLength(SILENT);
  const afterMonitors = types.slice(types.lastIndexOf('monitor'));
  expect(afterMonitors.filter((type) => type === 'checkpoint').length).toBeGreaterThan(2 * LOOKS);
});

/** All pages of history of a project; what is left out is as of now. */
async function readPages(walk: Walk, db: Database, projectId: string): Promise<number> {
  let lines = 0;
  for (let after: Key | undefined, hasMore = true; hasMore; ) {
    const page = await READ.observation(walk, { db, projectId, after }, homeOf(walk.order));
    for (const { content } of page.parts) if (content.kind === 'history') lines += content.lines;
    after = page.end ?? after;
    hasMore = page.hasMore;
  }
  return lines;
}

it('no partition is looked into for a monitor that has nothing after its place', async () => {
  const { pool } = fixture;
  const scope = await seedProject(pool);
  await seedSilent(scope, 300);
  const one = await seedMonitor(pool, scope);
  await insertBeats(pool, one, beatsFrom(Date.now() - HOUR_MS, 3));
  const order = await orderOf(fixture, 'csv', { scope });
  // The page ends with the rows of the monitor.
  const walk = { order, pages: { ...PAGES, lines: 3, monitors: 50 }, lineBytes: LINE_BYTES };
  const partitions = await pool.query("select from pg_inherits where inhparent = 'observations'::regclass");
  let lines = 0;
  const scans = await scansBy(pool, { name: 'export-observations', table: 'observations' }, async (db) => {
    lines = await readPages(walk, db, scope.projectId);
  });
  expect(lines).toBe(3);
  expect(scans).toBeGreaterThan(0);
  expect(scans).toBeLessThanOrEqual(partitions.rowCount ?? 0);
});

it('each observation is read once, also where a monitor beats on long after the start', async () => {
  const { pool } = fixture;
  const scope = await seedProject(pool);
  const created_at = new Date(daysAgo(9));
  const monitor = await seedMonitor(pool, scope, { configuration: { created_at } });
  const days = [daysAgo(8), daysAgo(7), daysAgo(6)];
  for (const day of days) await makePartition(pool, day);
  const [first = 0, started = 0, later = 0] = days;
  const OF_DAY = 2_500;
  const lastHour = started + DAY_MS - HOUR_MS;
  for (const [place, from] of [first, lastHour, later].entries())
    await insertBeats(pool, monitor, beatsFrom(from, OF_DAY), 1 + place * OF_DAY);
  await pool.query('analyze observations');
  const begun = await orderOf(fixture, 'csv', { scope });
  // It began in the day before that hour, and goes on a week later.
  const order = withHome(begun, { span: { ...homeOf(begun).span, startedMs: lastHour - 2 * HOUR_MS } });
  let lines = 0;
  const read = await rowsReadBy(pool, 'export-observations', async (db) => {
    lines = await readPages({ order, pages: PAGES, lineBytes: LINE_BYTES }, db, scope.projectId);
  });
  expect(lines).toBe(2 * OF_DAY);
  // The monitor in each page, and the next row of a partition in each block.
  expect(read).toBeLessThan(2 * OF_DAY + 100);
});

it.each(EXPORT_FORMATS)(
  '%s: a page has at most twice as many bytes as it is asked for, and a line, however short its lines are',
  async (format) => {
    const { pool } = fixture;
    const scope = await seedProject(pool);
    const monitor = await seedMonitor(pool, scope);
    await insertBeats(pool, monitor, beatsFrom(Date.now() - HOUR_MS, 1_000));
    const terms = {
      fromMs: 0,
      untilMs: Date.now() + DAY_MS,
      madeUntilMs: Date.now(),
      storedObservations: 10_000,
    };
    // Pages begin with a wrong idea of how long lines are.
    for (let bytes = 20_000; bytes < 200_000; bytes += 5_000) {
      const lineBytes = bytes / 1_000;
      const limits = { lines: 4_000, bytes, monitors: 10, lineBytes };
      const after: ObservationPlace | undefined = undefined;
      const page = await listExportedObservations(pool, scope.projectId, after, { ...terms, format, limits });
      const size = page.blocks.reduce((sum, { text }) => sum + text.length, 0);
      const line = size / page.lines;
      expect([bytes, size <= 2 * bytes + line]).toEqual([bytes, true]);
      expect([bytes, size > Math.min(bytes / 2, 1_000 * line - line)]).toEqual([bytes, true]);
    }
  },
);

it('a table goes on from a row that has the cursor alone, without loss or repeat', async () => {
  const { pool } = fixture;
  const { organizationId } = await seedProject(pool);
  const names: string[] = [];
  for (const beats of [0, 3, 0, 2]) {
    const project = { organizationId, projectId: crypto.randomUUID() };
    await pool.query(
      'insert into projects (project_id, organization_id, name, name_key) values ($1::uuid, $2, $1::uuid::text, $1::uuid::text)',
      [project.projectId, organizationId],
    );
    if (beats === 0) continue;
    for (const monitor of await seedMonitors(pool, project, 5)) {
      await insertBeats(pool, monitor, beatsFrom(Date.now() - HOUR_MS, beats));
      for (let sequence = 1; sequence <= beats; sequence += 1) names.push(`${monitor.monitorId} ${sequence}`);
    }
    await seedMonitors(pool, project, 10);
  }
  const order = await orderOf(fixture, 'csv', { scope: { organizationId } });
  const rows = cellsOf(await readAll(streamOf(fixture, order, ALWAYS)));
  const breaks = rows.flatMap((row, place) => (hasCursorAlone(row) ? [place] : []));
  expect(breaks.length).toBeGreaterThan(10);
  const nameOf = (row: readonly string[]) => `${row[1]} ${row[3]}`;
  for (const place of breaks) {
    const rest = cellsOf(await readAll(streamOf(fixture, order, { cursor: cursorOf(rows[place] ?? []) })));
    const found = [...rows.slice(1, place + 1).filter((row) => !hasCursorAlone(row)), ...rest].map(nameOf);
    expect(found.toSorted()).toEqual(names.toSorted());
  }
});
