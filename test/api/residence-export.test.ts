// An export over several databases: it has the monitors of all of them, goes on from any checkpoint, and says whose database
// is away (docs/contract/organization.md).
// Holds: exportOrganization.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import type { ExportRecord } from '../../src/contract/resources/export.ts';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import {
  cellsOf,
  type ExportCall,
  fetchExport,
  ofType,
  readExport,
  recordsOf,
} from '../support/export-reader.ts';
import {
  beginSumsAt,
  daysAgo,
  HOUR_MS,
  insertBeats,
  makePartition,
  setLastSequences,
  sumUpUntil,
  waitOutDay,
} from '../support/past-beats.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { type SeedMonitor, seedMonitor } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import { makeMonitor } from './monitor-fixture.ts';

/** Of each monitor with a history: more than are between two checkpoints. */
const BEATS = 2_500;

let api: ResidenceFixture;
let unrestricted: SeedMonitor;
let eu: SeedMonitor;
let incidents: string[];

beforeAll(async () => {
  await waitOutDay();
  api = await openResidenceFixture();
  unrestricted = await seedHistory(api.pool, 'unrestricted');
  eu = await seedHistory(api.eu, 'eu');
  // One id, in both jurisdictions.
  for (const jurisdiction of ['us', 'eu']) {
    const body = {
      monitorId: 'twice',
      name: `twice in ${jurisdiction}`,
      intervalSeconds: 3600,
      jurisdiction,
    };
    await api.manage.expectSuccess('createMonitor', { body });
  }
  const failing = [
    await makeMonitor(api, { jurisdiction: 'us' }),
    await makeMonitor(api, { jurisdiction: 'eu' }),
  ];
  incidents = [];
  for (const monitor of failing) incidents.push(await monitor.fail());
});
afterAll(() => api?.close());
beforeEach(() => api.restore());

async function seedHistory(pool: Pool, jurisdiction: Jurisdiction): Promise<SeedMonitor> {
  const { organizationId, projectId } = api;
  const monitor = await seedMonitor(pool, { organizationId, projectId }, { configuration: { jurisdiction } });
  const first = Date.now() - HOUR_MS;
  const beats = Array.from({ length: BEATS }, (_, place) => ({ atMs: first + place }));
  await insertBeats(pool, monitor, beats);
  return monitor;
}

const call = (query: Record<string, string> = {}): ExportCall => ({
  url: api.url,
  token: api.tokens.read,
  query,
});

/** Of each monitor with a history, the sequences in their order. */
function sequencesOf(records: readonly ExportRecord[]): Record<string, number[]> {
  const of = (monitorId: string) =>
    ofType(records, 'observation')
      .filter((one) => one.monitorId === monitorId)
      .map(({ sequence }) => sequence);
  return { unrestricted: of(unrestricted.monitorId), eu: of(eu.monitorId) };
}
const ALL = Array.from({ length: BEATS }, (_, place) => place + 1);
const WHOLE = { unrestricted: ALL, eu: ALL };

it('an export has what is in all databases, in the order of its types', async () => {
  const records = recordsOf(await readExport(call()));
  expect(records.at(-1)).toMatchObject({ type: 'checkpoint', complete: true });
  const types = records.map(({ type }) => type).filter((type) => type !== 'checkpoint');
  expect(types).toEqual([...types].sort((a, b) => types.indexOf(a) - types.indexOf(b)));
  for (const type of ['export.started', 'project'] as const) expect(ofType(records, type)).toHaveLength(1);
  const listed = (await api.read.expectSuccess('listMonitors')).body.items;
  const byId = (a: object, b: object) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);
  expect(ofType(records, 'monitor').sort(byId)).toEqual(
    listed.map((item) => ({ type: 'monitor', ...item })).sort(byId),
  );
  expect(ofType(records, 'monitor').filter(({ monitorId }) => monitorId === 'twice')).toHaveLength(2);
  expect(
    ofType(records, 'incident')
      .map(({ incidentId }) => incidentId)
      .sort(),
  ).toEqual([...incidents].sort());
  expect(sequencesOf(records)).toEqual(WHOLE);
  for (const { monitorId, jurisdiction } of ofType(records, 'observation').slice(0, BEATS))
    expect([monitorId === eu.monitorId, jurisdiction === 'eu']).toEqual([false, false]);
});

it('an export goes on from each of its checkpoints, in whichever database that is', async () => {
  const lines = (await readExport(call())).split('\n').slice(0, -1);
  const places = lines.flatMap((line, place) => (line.startsWith('{"type":"checkpoint"') ? [place] : []));
  expect(places.length).toBeGreaterThan(5);
  for (const place of places) {
    const before = lines.slice(0, place + 1).map((line) => `${line}\n`);
    const { cursor } = JSON.parse(lines[place] ?? '');
    const records = recordsOf(before.join('') + (await readExport(call({ cursor }))));
    expect(sequencesOf(records)).toEqual(WHOLE);
    expect(ofType(records, 'monitor')).toHaveLength(6);
    expect(ofType(records, 'incident')).toHaveLength(2);
  }
});

it('a table has all observations, and goes on from each row with a cursor', async () => {
  const [, ...rows] = cellsOf(await readExport(call({ format: 'csv' })));
  const namesOf = (some: readonly string[][]) => some.map((row) => `${row[1]} ${row[2]} ${row[3]}`);
  const count = 2 * BEATS + incidents.length;
  expect(new Set(namesOf(rows)).size).toBe(count);
  const places = rows.flatMap((row, place) => (row.at(-1) === '' ? [] : [place]));
  expect(places.length).toBeGreaterThan(5);
  for (const place of places) {
    const rest = cellsOf(await readExport(call({ format: 'csv', cursor: rows[place]?.at(-1) ?? '' })));
    expect(namesOf([...rows.slice(0, place + 1), ...rest])).toEqual(namesOf(rows));
  }
});

it.each([
  ['default', 'unrestricted'],
  ['eu', 'eu'],
] as const)(
  'while the database %s is away an export neither begins nor goes on: 503 says whose it is',
  async (which, jurisdiction) => {
    const checkpoint = ofType(recordsOf(await readExport(call())), 'checkpoint')[0];
    const cursor = checkpoint?.cursor ?? '';
    // Who calls is known while the default database is away.
    await api.proxies[which].refuse();
    for (const query of [{}, { cursor }, { format: 'csv' }]) {
      const answer = await fetchExport(call(query as Record<string, string>));
      expect([answer.status, await answer.json()]).toMatchObject([503, { jurisdiction }]);
      expect(answer.headers.get('retry-after')).not.toBeNull();
    }
    await api.restore();
    expect(recordsOf(await readExport(call({ cursor }))).at(-1)).toMatchObject({ complete: true });
  },
);

it('a database that goes away breaks the stream, and the export goes on from its last checkpoint', async () => {
  const large = await seedMonitor(api.eu, api, { configuration: { jurisdiction: 'eu' } });
  // So many bytes that no buffer between here and there holds them.
  await api.eu.query(
    `insert into observations (project_id, monitor_key, sequence, received_at, kind, message)
     select $1, $2, n, clock_timestamp() - interval '1 hour', 'success', repeat('m', 1000) from generate_series(1, 60000) n`,
    [large.projectId, large.monitorKey],
  );
  await setLastSequences(api.eu, large.projectId);
  const answer = await fetchExport(call());
  let text = '';
  const read = (async () => {
    const decoder = new TextDecoder();
    let isAway = false;
    for await (const piece of answer.body ?? []) {
      text += decoder.decode(piece, { stream: true });
      const first = text.indexOf('{"type":"observation"');
      if (isAway || first < 0 || !text.includes(large.monitorId, first)) continue;
      isAway = true;
      await api.proxies.eu.refuse();
    }
  })();
  await expect(read).rejects.toThrow();
  const lines = text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .slice(0, -1);
  const last = lines.findLastIndex((line) => line.startsWith('{"type":"checkpoint"'));
  const { cursor, complete } = JSON.parse(lines[last] ?? '');
  expect(complete).toBe(false);
  const refused = await fetchExport(call({ cursor }));
  expect([refused.status, await refused.json()]).toMatchObject([503, { jurisdiction: 'eu' }]);
  await api.restore();
  const rest = await waitFor(() => readExport(call({ cursor })), { what: 'the database is found again' });
  const records = recordsOf(
    lines
      .slice(0, last)
      .map((line) => `${line}\n`)
      .join('') + rest,
  );
  expect(sequencesOf(records)).toEqual(WHOLE);
  const found = ofType(records, 'observation').filter(({ monitorId }) => monitorId === large.monitorId);
  expect(found.map(({ sequence }) => sequence)).toEqual(
    Array.from({ length: 60_000 }, (_, place) => place + 1),
  );
  await api.eu.query('delete from monitors where monitor_key = $1', [large.monitorKey]);
});

it('a place that has summed up less has more of its history as observations, and nothing is missing in either', async () => {
  const beats = [daysAgo(30) + HOUR_MS, daysAgo(29) + HOUR_MS, daysAgo(1) + HOUR_MS];
  const made: Record<string, SeedMonitor> = {};
  for (const [pool, jurisdiction] of [
    [api.pool, 'unrestricted'],
    [api.eu, 'eu'],
  ] as const) {
    await makePartition(pool, daysAgo(30));
    await beginSumsAt(pool, daysAgo(30));
    const monitor = await seedMonitor(pool, api, { configuration: { jurisdiction } });
    await insertBeats(
      pool,
      monitor,
      beats.map((atMs) => ({ atMs, measurements: { rows: 1 } })),
    );
    made[jurisdiction] = monitor;
  }
  await sumUpUntil(api.pool, daysAgo(0));
  const records = recordsOf(await readExport(call({ includeObservationBuckets: 'true' })));
  const formsOf = (monitorId?: string) => [
    ofType(records, 'observation')
      .filter((one) => one.monitorId === monitorId)
      .map(({ sequence }) => sequence),
    ofType(records, 'observation_bucket').filter(
      (one) => one.monitorId === monitorId && one.measurement === 'rows',
    ).length,
  ];
  expect(formsOf(made.unrestricted?.monitorId)).toEqual([[2, 3], 1]);
  expect(formsOf(made.eu?.monitorId)).toEqual([[1, 2, 3], 0]);
  const [started] = ofType(records, 'export.started');
  expect(Date.parse(started?.observationsFrom ?? '')).toBe(daysAgo(29));
});

it('usage is what all databases have counted', async () => {
  const count = async (pool: Pool, month: string, beats: number) => {
    await pool.query(
      `insert into usage_counters (project_id, period, dimension, value) values ($1, $2, 'beats', $3)`,
      [api.projectId, month, beats],
    );
  };
  await count(api.pool, '2025-08-01', 1);
  await count(api.eu, '2025-08-01', 10);
  await count(api.eu, '2025-09-01', 100);
  const owner = { ...call(), token: api.tokens.owner, project: api.projectName };
  const months = ofType(recordsOf(await readExport(owner)), 'usage').map(({ period, beats }) => [
    period,
    beats,
  ]);
  expect(months.slice(0, 2)).toEqual([
    ['2025-08', 11],
    ['2025-09', 100],
  ]);
});

it('the cursor of a database that is not of this installation is refused', async () => {
  const text = await readExport(call());
  const cursor = ofType(recordsOf(text), 'checkpoint')[0]?.cursor ?? '';
  const parts: unknown[] = JSON.parse(Buffer.from(cursor, 'base64url').toString());
  const [name, spans] = parts;
  const other = [name, spans, 'observation', 'fedramp'];
  const forged = Buffer.from(JSON.stringify(other)).toString('base64url');
  const answer = await fetchExport(call({ cursor: forged }));
  expect([answer.status, await answer.json()]).toMatchObject([
    400,
    { fieldErrors: [{ path: 'cursor', code: 'invalid_cursor' }] },
  ]);
});
