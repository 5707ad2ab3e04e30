// The lines that Postgres makes say what the presenter says of the same rows, whatever the rows hold; and a page of them
// reads no more than its rows.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { presentObservation } from '../../src/api/present/present-monitor.ts';
import { EXPORT_COLUMNS } from '../../src/contract/resources/export.ts';
import { optionalTime } from '../../src/domain/timestamp.ts';
import {
  listExportedBuckets,
  listExportedObservations,
  type ObservationPlace,
} from '../../src/store/beats/exported-history.ts';
import type { HistoryPage } from '../../src/store/beats/exported-page.ts';
import { listObservations } from '../../src/store/beats/observations-read.ts';
import { createPartitions, OBSERVATIONS } from '../../src/store/postgres/partitions.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { cellsOf } from '../support/export-reader.ts';
import { rowsReadBy } from '../support/pages.ts';
import { DAY_MS, daysAgo, setLastSequences } from '../support/past-beats.ts';
import { type SeedMonitor, seedMonitor, seedMonitors, seedProject } from '../support/seed.ts';

let fixture: ProjectFixture;
beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

const SPAN = { fromMs: daysAgo(30), untilMs: Date.now() + DAY_MS };
const ALL = { ...SPAN, madeUntilMs: SPAN.untilMs, storedObservations: 2_000_000 };
const LIMITS = { lines: 1_000, bytes: 1_048_576, monitors: 200, lineBytes: 1_000 };

const textOf = ({ blocks }: HistoryPage<unknown>) => Buffer.concat(blocks.map(({ text }) => text)).toString();
const linesOf = (page: HistoryPage<unknown>) => textOf(page).split(/\r?\n/).slice(0, -1);

/** What a text column may hold. */
const text = fc
  .string({ unit: 'binary', maxLength: 40 })
  .filter((one) => !one.includes('\0') && one.isWellFormed());
const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer());
const row = fc.record(
  {
    kind: fc.constantFrom('success', 'fail', 'start', 'log'),
    late: fc.boolean(),
    receivedMs: fc.integer({ min: SPAN.fromMs, max: SPAN.untilMs - 1 }),
    observedMs: fc.integer({ min: Date.parse('0001-01-01'), max: Date.parse('9999-12-31') }),
    durationSeconds: fc.double({ min: 0, noNaN: true, noDefaultInfinity: true }),
    exitStatus: fc.integer({ min: 0, max: 255 }),
    runId: fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,20}$/),
    message: text,
    measurements: fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9_]{0,10}$/), number, { maxKeys: 4 }),
    violations: fc.array(fc.record({ measurement: text, rule: text, bound: number, value: number }), {
      maxLength: 2,
    }),
  },
  { requiredKeys: ['kind', 'late', 'receivedMs'] },
);

async function insert(monitor: SeedMonitor, rows: readonly Record<string, unknown>[]): Promise<void> {
  await fixture.pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, late, observed_at,
       duration_seconds, exit_status, run_id, message, measurements, violations)
     select $1, $2, v.sequence, to_timestamp(v.received / 1000.0), v.kind, v.late, v.observed,
       v.duration, v.exit, v.run, v.message, v.measurements, v.violations
     from jsonb_to_recordset($3::jsonb) as v (sequence bigint, received bigint, kind text, late boolean, observed timestamptz,
       duration double precision, exit smallint, run text, message text, measurements jsonb, violations jsonb)`,
    [
      monitor.projectId,
      monitor.monitorKey,
      JSON.stringify(
        rows.map((one, place) => ({
          sequence: place + 1,
          ...{
            received: one.receivedMs,
            kind: one.kind,
            late: one.late,
            observed: optionalTime(one.observedMs as number | undefined),
          },
          ...{ duration: one.durationSeconds, exit: one.exitStatus, run: one.runId, message: one.message },
          ...{ measurements: one.measurements, violations: one.violations },
        })),
      ),
    ],
  );
  await setLastSequences(fixture.pool, monitor.projectId);
}

/** The cells that are not empty, by the names of their columns. Postgres may write a number otherwise than Node. */
function recordOf(row: readonly string[]): Record<string, unknown> {
  const cells = EXPORT_COLUMNS.map((name, place): [string, unknown] => [name, row[place] ?? '']);
  const numbers = ['sequence', 'durationSeconds', 'exitStatus'];
  const parsed = [...numbers, 'measurements', 'violations'];
  return Object.fromEntries(
    cells
      .filter(([, cell]) => cell !== '')
      .map(([name, cell]) => [name, parsed.includes(name) ? JSON.parse(String(cell)) : cell]),
  );
}

it('the lines of observations say what presentObservation says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 8 }), async (rows) => {
      const { pool, project } = fixture;
      const monitor = await seedMonitor(pool, project);
      await insert(monitor, rows);
      const { projectId, monitorId, monitorKey } = monitor;
      const page = await listExportedObservations(
        pool,
        projectId,
        { monitorKey, sequence: 0 },
        { ...ALL, format: 'ndjson', limits: { ...LIMITS, monitors: 1 } },
      );
      const lines = linesOf(page).map((line) => JSON.parse(line));
      const shown = (await listObservations(pool, monitor, {}, { limit: 100 }))
        .reverse()
        .map(presentObservation);
      const ofMonitor = { type: 'observation', projectId, monitorId, jurisdiction: 'unrestricted' };
      expect(lines).toEqual(shown.map((one) => JSON.parse(JSON.stringify({ ...ofMonitor, ...one }))));
      const table = await listExportedObservations(
        pool,
        projectId,
        { monitorKey, sequence: 0 },
        { ...ALL, format: 'csv', limits: { ...LIMITS, monitors: 1 } },
      );
      expect(cellsOf(textOf(table)).map(recordOf)).toEqual(
        shown.map(({ measurements, violations, ...one }) => ({
          ...{ projectId, monitorId, jurisdiction: 'unrestricted', measurements, violations },
          ...Object.fromEntries(
            Object.entries(one)
              .filter(([, value]) => value !== undefined && value !== '')
              .map(([name, value]) => [name, typeof value === 'number' ? value : String(value)]),
          ),
        })),
      );
      await pool.query('delete from monitors where monitor_key = $1', [monitorKey]);
    }),
    { numRuns: 60 },
  );
});

it('a page reads about as many rows as it has, of monitors with few beats and with many', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const connection = await pool.connect();
  await createPartitions(connection, OBSERVATIONS);
  connection.release();
  const many = await seedMonitors(pool, project, 300);
  await pool.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind)
     select project_id, monitor_key, n, clock_timestamp() - interval '1 hour' + n * interval '1 second', 'success'
     from monitors, generate_series(1, case when monitor_key = $1 then 30000 else 60 end) n
     where project_id = $2`,
    [many[150]?.monitorKey, project.projectId],
  );
  await setLastSequences(pool, project.projectId);
  await pool.query('analyze observations; analyze monitors');
  let after: { monitorKey: string; sequence: number } | undefined;
  let lines = 0;
  for (let page = 0; ; page += 1) {
    const order = { ...ALL, format: 'ndjson', limits: LIMITS } as const;
    let found: Awaited<ReturnType<typeof listExportedObservations>> | undefined;
    const read = await rowsReadBy(pool, 'export-observations', async (db) => {
      found = await listExportedObservations(db, project.projectId, after, order);
    });
    // The monitors, once for the page and once for its end, and the rest of the last monitor.
    expect([page, read < 2 * LIMITS.lines + 2 * LIMITS.monitors + 200]).toEqual([page, true]);
    lines += found?.lines ?? 0;
    after = found?.end;
    if (!found?.hasMore) break;
  }
  expect(lines).toBe(299 * 60 + 30_000);
});

it.each(['ndjson', 'csv'] as const)(
  '%s: pages of numbers that Postgres writes in full have few bytes, and miss no line',
  async (format) => {
    const { pool } = fixture;
    const project = await seedProject(pool);
    const [one, two] = await seedMonitors(pool, project, 2);
    if (!one || !two) throw new Error('no monitor');
    const LINE_BYTES = 25_000;
    const measurements = Object.fromEntries(Array.from({ length: 64 }, (_, place) => [`m${place}`, 5e-324]));
    const rows = Array.from({ length: 120 }, () => ({
      ...{ kind: 'success', late: false, receivedMs: SPAN.untilMs - DAY_MS, measurements },
    }));
    for (const monitor of [one, two]) await insert(monitor, rows);
    const pages: HistoryPage<ObservationPlace>[] = [];
    let { lineBytes } = LIMITS;
    for (let after: ObservationPlace | undefined, hasMore = true; hasMore; ) {
      const limits = { ...LIMITS, monitors: 3, lineBytes };
      const page = await listExportedObservations(pool, project.projectId, after, { ...ALL, format, limits });
      pages.push(page);
      lineBytes = page.lineBytes;
      after = page.end ?? after;
      hasMore = page.hasMore;
    }
    const sizes = pages.map((page) => Buffer.byteLength(textOf(page)));
    expect(Math.max(...sizes)).toBeLessThan(2 * LIMITS.bytes + LINE_BYTES);
    expect(sizes.reduce((sum, size) => sum + size)).toBeGreaterThan(2 * LIMITS.bytes);
    const lines = pages.flatMap(linesOf);
    expect(lines).toHaveLength(240);
    expect(new Set(lines).size).toBe(240);
    expect(pages.reduce((sum, page) => sum + page.lines, 0)).toBe(240);
  },
);

it('a line that alone has more bytes than a page is a page', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  const [monitor] = await seedMonitors(pool, project, 1);
  if (!monitor) throw new Error('no monitor');
  const row = { kind: 'success', late: false, receivedMs: SPAN.untilMs - DAY_MS };
  await insert(monitor, [row, row]);
  const order = { ...ALL, format: 'ndjson', limits: { ...LIMITS, bytes: 10 } } as const;
  const first = await listExportedObservations(pool, project.projectId, undefined, order);
  expect([first.lines, first.end?.sequence, first.hasMore]).toEqual([1, 1, true]);
  const second = await listExportedObservations(pool, project.projectId, first.end, order);
  expect([second.lines, second.end?.sequence]).toEqual([1, 2]);
  const third = await listExportedObservations(pool, project.projectId, second.end, order);
  expect([third.lines, third.hasMore]).toEqual([0, false]);
});

it.each(['ndjson', 'csv'] as const)(
  '%s: observations just within their bounds are in it, those just without are not',
  async (format) => {
    const { pool } = fixture;
    const project = await seedProject(pool);
    const monitor = await seedMonitor(pool, project, { live: { last_sequence: 6 } });
    const { fromMs, untilMs } = SPAN;
    const moments = [fromMs - 1, fromMs, fromMs, fromMs + 1, untilMs - 1, untilMs];
    await insert(
      monitor,
      moments.map((receivedMs) => ({ kind: 'success', late: false, receivedMs })),
    );
    const sequencesOf = async (query: Partial<typeof ALL>) => {
      const { projectId } = project;
      const page = await listExportedObservations(pool, projectId, undefined, {
        ...ALL,
        ...query,
        format,
        limits: LIMITS,
      });
      return linesOf(page).map((line) =>
        Number(/"sequence":(\d)|unrestricted,(\d)/.exec(line)?.slice(1).join('')),
      );
    };
    expect(await sequencesOf({})).toEqual([2, 3, 4, 5]);
    expect(await sequencesOf({ storedObservations: 4 })).toEqual([3, 4, 5]);
    expect(await sequencesOf({ fromMs: Number.MAX_SAFE_INTEGER })).toEqual([]);
  },
);

/** Hours one after the other, of three measurements each. */
async function insertHours(
  { projectId, monitorKey }: SeedMonitor,
  { fromMs, count }: { fromMs: number; count: number },
): Promise<void> {
  await fixture.pool.query(
    `insert into observation_buckets (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean)
     select $1, $2, measurement, to_timestamp($3 / 1000.0) + n * interval '1 hour', 1, n, n, n
     from unnest(array['beatGapSeconds', 'rows', 'size']) as measurement, generate_series(0, $4 - 1) n`,
    [projectId, monitorKey, fromMs, count],
  );
  await fixture.pool.query('update monitor_live set last_sequence = $2 where monitor_key = $1', [
    monitorKey,
    count,
  ]);
  await fixture.pool.query('analyze observation_buckets');
}

it('a page of hours reads about as many rows as it has', async () => {
  const { pool } = fixture;
  const monitor = await seedMonitor(pool, fixture.project);
  await insertHours(monitor, { fromMs: daysAgo(300), count: 4_000 });
  const after = { monitorKey: monitor.monitorKey, measurement: 'rows', startMs: daysAgo(200) };
  const query = {
    ...{ observationsFromMs: daysAgo(30), summedMs: daysAgo(0), madeUntilMs: SPAN.untilMs },
    ...{ storedObservations: 2_000_000, limits: { ...LIMITS, monitors: 1 } },
  };
  let lines = 0;
  const read = await rowsReadBy(pool, 'export-buckets', async (db) => {
    ({ lines } = await listExportedBuckets(db, monitor.projectId, after, query));
  });
  expect(lines).toBe(1_000);
  expect(read).toBeLessThan(1_100);
});

it('a page of hours reads none of those that are not shown', async () => {
  const { pool } = fixture;
  const project = await seedProject(pool);
  for (let count = 0; count < 5; count += 1) {
    await insertHours(await seedMonitor(pool, project), { fromMs: daysAgo(29), count: 500 });
  }
  const query = {
    ...{ observationsFromMs: daysAgo(30), summedMs: daysAgo(0), madeUntilMs: SPAN.untilMs },
    ...{ storedObservations: 2_000_000, limits: LIMITS },
  };
  let lines = 0;
  const read = await rowsReadBy(pool, 'export-buckets', async (db) => {
    ({ lines } = await listExportedBuckets(db, project.projectId, undefined, query));
  });
  expect(lines).toBe(0);
  expect(read).toBeLessThan(100);
});
