// Exports that break at each of their checkpoints, beside beats, changes and other pages: what they have is compared with
// a model of what was committed.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ExportRecord } from '../../src/contract/resources/export.ts';
import { newUuid } from '../../src/domain/id.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { cellsOf, recordsOf } from '../support/export-reader.ts';
import { daysAgo, HOUR_MS, insertBeats } from '../support/past-beats.ts';
import { type SeedMonitor, type SeedProject, seedEndpoint, seedMonitors } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import { orderOf, readAll, streamOf } from './export-order.ts';

let fixture: ProjectFixture;
let projects: SeedProject[];
let monitors: SeedMonitor[];
/** By monitor key: how many beats it has. */
const counts = new Map<string, number>();
/** Records between two checkpoints. */
const most = 5;

beforeAll(async () => {
  fixture = await openProjectFixture();
  const { pool, project, secrets } = fixture;
  const { organizationId } = project;
  projects = [project];
  for (const name of ['empty', 'third']) {
    const { projectId } = await insertProject(pool, { projectId: newUuid(), organizationId, name });
    projects.push({ organizationId, projectId });
  }
  monitors = [];
  for (const [place, of] of [projects[0], projects[2]].entries()) {
    if (!of) throw new Error('no project');
    monitors.push(...(await seedMonitors(pool, of, 5)));
    for (let count = 0; count <= 2; count += 1)
      await seedEndpoint({ pool, project: of, secrets }, `https://hooks.example.com/${place}`);
  }
  for (const [place, monitor] of monitors.entries())
    await beat(monitor, [0, 1, 7, 3, 0, 4, 6, 2, 3, 12][place] ?? 0);
  // The first of them has none of its observations any more.
  await pool.query('update monitor_live set last_sequence = 9 where monitor_key = $1', [
    monitors[0]?.monitorKey,
  ]);
  for (const { projectId, monitorKey } of monitors.slice(0, 3))
    await pool.query(
      `insert into observation_buckets (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean)
       select $1, $2, measurement, to_timestamp($3 / 1000.0) + n * interval '1 hour', 1, n, n, n
       from unnest(array['beatGapSeconds', 'rows']) as measurement, generate_series(1, 3) n`,
      [projectId, monitorKey, daysAgo(60)],
    );
  await pool.query(
    `insert into usage_counters (project_id, period, dimension, value)
     select $1, make_date(2026, month, 1), 'beats', month from generate_series(1, 5) as month`,
    [project.projectId],
  );
});
afterAll(() => fixture?.close());

/** Beats of the last hours, one after the other. */
async function beat(monitor: SeedMonitor, count: number): Promise<void> {
  const before = counts.get(monitor.monitorKey) ?? 0;
  const first = Date.now() - 20 * HOUR_MS;
  const beats = Array.from({ length: count }, (_, place) => ({ atMs: first + (before + place) * 1_000 }));
  await insertBeats(fixture.pool, monitor, beats, before + 1);
  counts.set(monitor.monitorKey, before + count);
}

/** Between so many pieces of a stream something changes, so that beats are not faster than all the exports together. */
const CHANGES = 8;

/** Reads it. Between its first pieces somebody beats, renames and adds monitors. */
async function readBesideChanges(stream: AsyncGenerator<string | Buffer>): Promise<string> {
  let changes = 0;
  return await readAll(stream, async () => {
    changes += 1;
    if (changes <= CHANGES) await change();
  });
}

let turn = 0;
async function change(): Promise<void> {
  turn += 1;
  const monitor = monitors[turn % monitors.length];
  if (!monitor) throw new Error('no monitor');
  if (turn % 3 === 0) await beat(monitor, 2);
  // Names move in the list by name, and endpoints change their state.
  if (turn % 5 === 0)
    await fixture.pool.query('update monitors set name = $2, name_key = $2 where monitor_key = $1', [
      monitor.monitorKey,
      `renamed-${turn % 2 === 0 ? 'a' : 'z'}-${turn}`,
    ]);
  if (turn % 25 === 0 && projects[1]) await seedMonitors(fixture.pool, projects[1], 1);
}

/** What names a record in an export. */
function nameOf(record: ExportRecord): string {
  const { type, ...rest } = record as { type: string } & Record<string, unknown>;
  const parts = ['id', 'monitorId', 'sequence', 'measurement', 'startAt', 'period', 'incidentId'].map(
    (key) => rest[key] ?? '',
  );
  return [type, rest.projectId, ...parts].join(' ');
}

/** The names of what is committed now. */
async function committedNow(): Promise<string[]> {
  const whole = recordsOf(await readAll(streamOf(fixture, await orderOf(fixture), { most })));
  const observations = monitors.flatMap(({ projectId, monitorId, monitorKey }) =>
    Array.from({ length: counts.get(monitorKey) ?? 0 }, (_, place) =>
      nameOf({ type: 'observation', projectId, monitorId, sequence: place + 1 } as ExportRecord),
    ),
  );
  // The walk itself is checked by the model where the model is simple, and by itself where nothing changes.
  const exported = whole.map(nameOf).filter((name) => name.startsWith('observation '));
  expect([...exported].sort()).toEqual([...observations].sort());
  return whole.filter(({ type }) => type !== 'checkpoint').map(nameOf);
}

const countsOf = (names: readonly string[]) => {
  const found = new Map<string, number>();
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
  return found;
};

it('JSON Lines: an export that breaks at any checkpoint goes on without loss or repeat, beside changes', async () => {
  const expected = await committedNow();
  const order = await orderOf(fixture);
  const text = await readBesideChanges(streamOf(fixture, order, { most }));
  const lines = text.split('\n').slice(0, -1);
  const checkpoints = lines.flatMap((line, place) => {
    const record = JSON.parse(line) as ExportRecord;
    return record.type === 'checkpoint' ? [{ ...record, place }] : [];
  });
  expect(checkpoints.length).toBeGreaterThan(15);
  for (const { cursor, place } of checkpoints) {
    const before = lines.slice(0, place + 1).map((line) => `${line}\n`);
    const whole = recordsOf(
      before.join('') + (await readBesideChanges(streamOf(fixture, order, { cursor, most }))),
    );
    expect(whole.at(-1)).toMatchObject({ type: 'checkpoint', complete: true });
    const names = countsOf(whole.filter(({ type }) => type !== 'checkpoint').map(nameOf));
    expect([...names].filter(([, count]) => count > 1)).toEqual([]);
    expect(expected.filter((name) => !names.has(name))).toEqual([]);
  }
});

it('JSON Lines: no two checkpoints are further apart than they may be', async () => {
  let since = 0;
  for (const { type } of recordsOf(await readAll(streamOf(fixture, await orderOf(fixture), { most })))) {
    since = type === 'checkpoint' ? 0 : since + 1;
    expect(since).toBeLessThanOrEqual(most);
  }
});

it('a table that breaks after any row with a cursor goes on without loss or repeat, beside beats', async () => {
  const expected = monitors.flatMap(({ monitorId, monitorKey }) =>
    Array.from({ length: counts.get(monitorKey) ?? 0 }, (_, place) => `${monitorId} ${place + 1}`),
  );
  const order = await orderOf(fixture, 'csv');
  const rows = cellsOf(await readBesideChanges(streamOf(fixture, order, { most })));
  const breaks = rows.flatMap((row, place) => (place > 0 && row.at(-1) !== '' ? [place] : []));
  expect(breaks.length).toBeGreaterThan(10);
  for (const place of breaks) {
    const rest = cellsOf(await readBesideChanges(streamOf(fixture, order, { cursor: rows[place]?.at(-1) })));
    const names = [...rows.slice(1, place + 1), ...rest].map((row) => `${row[1]} ${row[3]}`);
    expect(new Set(names).size).toBe(names.length);
    expect(expected.filter((name) => !names.includes(name))).toEqual([]);
  }
});

it.each(['ndjson', 'csv'] as const)(
  '%s: an export whose next piece nobody takes holds no connection, whatever it reads next',
  async (format) => {
    const { databaseUrl } = fixture;
    // Longer than any page takes.
    const pool = openPool({ databaseUrl, size: 1, applicationName: 'export', busyTimeoutMs: 60_000 });
    try {
      const order = await orderOf({ ...fixture, pool }, format);
      let pieces = 0;
      for await (const _piece of streamOf(fixture, order, { most })) {
        pieces += 1;
        // After the page that is read ahead.
        await waitFor(() => pool.idleCount === pool.totalCount, { what: 'nothing holds the connection' });
        await pool.query('select');
      }
      expect(pieces).toBeGreaterThan(10);
    } finally {
      await pool.end();
    }
  },
);
