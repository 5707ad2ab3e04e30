// What an export has, by HTTP.
// Holds: exportOrganization.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { EXPORT_COLUMNS } from '../../src/contract/resources/export.ts';
import type { ApiFixture } from '../support/api-fixture.ts';
import {
  cellsOf,
  type ExportCall,
  fetchExport,
  ofType,
  readExport,
  recordsOf,
} from '../support/export-reader.ts';
import { DAY_MS, daysAgo, HOUR_MS, insertBeats } from '../support/past-beats.ts';
import { type SeedMonitor, seedCredential, seedMonitor } from '../support/seed.ts';
import { type ExportFixture, openExportFixture } from './export-fixture.ts';
import { type BeatenMonitor, makeMonitor } from './monitor-fixture.ts';

const SECRET_PATH = '/hooks/T0SECRETPATH';

let api: ApiFixture;
let second: SeedMonitor;
let asCredential: ExportFixture['asCredential'];
let asOwner: ExportFixture['asOwner'];
let monitor: BeatenMonitor;
let publishUrl: string;

beforeAll(async () => {
  ({ api, second, asCredential, asOwner } = await openExportFixture());
  await api.manage.expectSuccess('createCallback', {
    body: { alias: 'on-call', url: `http://127.0.0.1:9${SECRET_PATH}` },
  });
  monitor = await makeMonitor(api, {
    name: 'one',
    callback: { kind: 'inline', url: `http://127.0.0.1:9${SECRET_PATH}` },
  });
  const { body } = await api.manage.expectSuccess('getMonitor', { params: { monitorId: monitor.monitorId } });
  publishUrl = body.publishUrl ?? '';
  await monitor.beat();
  await fetch(`${api.url}${new URL(publishUrl).pathname}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      measurements: { rows: 1042, tiny: 5e-324, huge: 1.7e308 },
      message: 'a "quoted", comma,\nnew line\u2028\\',
      observedAt: '2026-01-02T03:04:05.678Z',
      runId: 'run-1',
      exitStatus: 0,
    }),
  });
  await monitor.fail();
});
afterAll(() => api?.close());

it('the records come in the order of their types, from export.started to a complete checkpoint', async () => {
  const answer = await fetchExport(asCredential());
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
  const records = recordsOf(await answer.text());
  const types = records.map(({ type }) => type);
  expect([...new Set(types)]).toEqual([
    'export.started',
    'project',
    'endpoint',
    'monitor',
    'incident',
    'observation',
    'usage.omitted',
    'checkpoint',
  ]);
  expect(types).toEqual([...types].sort((a, b) => types.indexOf(a) - types.indexOf(b)));
  expect(ofType(records, 'checkpoint')).toEqual([
    { type: 'checkpoint', cursor: expect.any(String), complete: true },
  ]);
});

it('each record is that of its own operation for a caller who may only read', async () => {
  const records = recordsOf(await readExport(asCredential()));
  const { monitorId } = monitor;
  const lists = {
    project: (await api.read.expectSuccess('listProjects')).body.items,
    endpoint: (await api.read.expectSuccess('listCallbacks')).body.items,
    monitor: (await api.read.expectSuccess('listMonitors')).body.items,
    incident: (await api.read.expectSuccess('listIncidents')).body.items,
  };
  for (const [type, items] of Object.entries(lists))
    expect(ofType(records, type as keyof typeof lists)).toEqual(items.map((item) => ({ type, ...item })));
  const [first] = lists.monitor;
  for (const { monitorName } of ofType(records, 'incident')) expect(monitorName).toBe(first?.name);
  const { items } = (await api.read.expectSuccess('listObservations', { params: { monitorId } })).body;
  expect(items).toHaveLength(3);
  const ofMonitor = {
    type: 'observation',
    projectId: api.projectId,
    monitorId,
    jurisdiction: 'unrestricted',
  };
  expect(ofType(records, 'observation')).toEqual(items.reverse().map((item) => ({ ...ofMonitor, ...item })));
});

it('no export has a secret, whoever asks', async () => {
  const address = new URL(publishUrl).pathname.split('/').at(-1) ?? '';
  expect(address).toMatch(/^[0-9a-f-]{36}$/);
  for (const call of [asCredential(), asOwner(), asOwner({ query: { format: 'csv' } })]) {
    const text = await readExport(call);
    for (const secret of [address, SECRET_PATH, 'bkc_', 'sigcb_'])
      expect([secret, text.includes(secret)]).toEqual([secret, false]);
  }
});

it('an endpoint whose key is lost is exported without its address', async () => {
  const before = await api.pool.query('select endpoint_id, url_box from callback_endpoints');
  try {
    await api.pool.query(`update callback_endpoints set url_box = '\\x0103616263'`);
    const records = recordsOf(await readExport(asCredential()));
    expect(ofType(records, 'endpoint').map(({ url }) => url)).toEqual([undefined]);
    expect(ofType(records, 'monitor').map(({ callback }) => callback)).toEqual([{ kind: 'inline', url: '' }]);
  } finally {
    for (const { endpoint_id, url_box } of before.rows)
      await api.pool.query('update callback_endpoints set url_box = $2 where endpoint_id = $1', [
        endpoint_id,
        url_box,
      ]);
  }
});

it('a table has the observations alone, and each cell says what the record does', async () => {
  const answer = await fetchExport(asCredential({ query: { format: 'csv' } }));
  expect(answer.headers.get('content-type')).toMatch(/^text\/csv\b/);
  const [head, ...rows] = cellsOf(await answer.text());
  expect(head).toEqual([...EXPORT_COLUMNS]);
  const records = ofType(recordsOf(await readExport(asCredential())), 'observation');
  const read = rows.map((row) =>
    Object.fromEntries(EXPORT_COLUMNS.map((name, place) => [name, row[place] ?? ''])),
  );
  expect(
    read.map(({ cursor: _, measurements = '', violations = '', ...cells }) => ({
      ...cells,
      measurements: JSON.parse(measurements),
      violations: JSON.parse(violations),
    })),
  ).toEqual(
    records.map(({ type: _, measurements, violations, ...record }) => ({
      ...Object.fromEntries(
        EXPORT_COLUMNS.filter((name) => name !== 'cursor').map((name) => [
          name,
          String((record as Record<string, unknown>)[name] ?? ''),
        ]),
      ),
      measurements,
      violations,
    })),
  );
  expect(read.map(({ cursor }) => cursor !== '')).toEqual([false, false, true]);
  const rest = await readExport(
    asCredential({ query: { format: 'csv', cursor: read.at(-1)?.cursor ?? '' } }),
  );
  expect(rest).toBe('');
});

it('usage is for a credential with the scope usage:read and for owners, others read why there is none', async () => {
  await api.pool.query(
    `insert into usage_counters (project_id, period, dimension, value)
     values ($1, '2026-10-01', 'beats', 41), ($2, '2026-10-01', 'beats', 1), ($3, '2026-10-01', 'beats', 1000)`,
    [api.projectId, second.projectId, api.other.projectId],
  );
  const { projectId } = api;
  const token = await seedCredential(api.pool, { projectId, preset: 'read', scopes: ['usage:read'] });
  const beatsOf = async (call: ExportCall) => {
    const records = recordsOf(await readExport(call));
    return [
      ofType(records, 'usage').map(({ period, beats }) => [period, beats]),
      ofType(records, 'usage.omitted').length,
    ];
  };
  expect(await beatsOf(asCredential({ token }))).toEqual([[['2026-10', 41]], 0]);
  expect(await beatsOf(asOwner())).toEqual([[['2026-10', 42]], 0]);
  expect(await beatsOf(asOwner({ project: 'second' }))).toEqual([[['2026-10', 1]], 0]);
  expect(await beatsOf(asCredential())).toEqual([[], 1]);
  expect(await beatsOf(asCredential({ token: api.tokens.member, project: api.projectName }))).toEqual([
    [],
    1,
  ]);
});

it('a record of usage has each number of its month, and 0 where nothing was counted', async () => {
  await api.pool.query(
    `insert into usage_counters (project_id, period, dimension, value)
     values ($1, '2026-08-01', 'active_monitors', 5), ($1, '2026-08-01', 'deliveries', 3),
       ($1, '2026-08-01', 'stored_observations', 4), ($1, '2026-08-01', 'api_requests', 2)`,
    [api.projectId],
  );
  const { projectId } = api;
  const token = await seedCredential(api.pool, { projectId, preset: 'read', scopes: ['usage:read'] });
  const usage = ofType(recordsOf(await readExport(asCredential({ token }))), 'usage');
  expect(usage.find(({ period }) => period === '2026-08')).toEqual({
    type: 'usage',
    period: '2026-08',
    activeMonitors: 5,
    beats: 0,
    deliveries: 3,
    storedObservations: 4,
    apiRequests: 2,
  });
});

it('the hours before the kept observations are for paid plans that ask for them', async () => {
  const hourMs = daysAgo(40) + 5 * HOUR_MS;
  const insert = (at: number) =>
    api.pool.query(
      `insert into observation_buckets (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean)
       values ($1, $2, 'rows', to_timestamp($3 / 1000.0), 4, 1, 9, 2.5), ($1, $2, 'empty', to_timestamp($3 / 1000.0), 0, null, null, null)`,
      [second.projectId, second.monitorKey, at],
    );
  await insert(hourMs);
  await insert(hourMs + HOUR_MS);
  // Its observations are kept still.
  await insert(daysAgo(2));
  const ask = (query: Record<string, string>) => readExport(asOwner({ project: 'second', query }));
  const asked = { includeObservationBuckets: 'true' };
  const records = recordsOf(await ask(asked));
  const bucketAt = (at: number) => ({
    ...{ type: 'observation_bucket', projectId: second.projectId, monitorId: second.monitorId },
    ...{ jurisdiction: 'unrestricted', measurement: 'rows', count: 4, minimum: 1, maximum: 9, mean: 2.5 },
    ...{ startAt: new Date(at).toISOString(), endAt: new Date(at + HOUR_MS).toISOString() },
  });
  expect(ofType(records, 'observation_bucket')).toEqual([bucketAt(hourMs), bucketAt(hourMs + HOUR_MS)]);
  expect(ofType(recordsOf(await ask({})), 'observation_bucket')).toEqual([]);
  await api.pool.query("update organizations set plan = 'free' where organization_id = $1", [
    api.organizationId,
  ]);
  const ofFree = recordsOf(await ask(asked));
  await api.pool.query("update organizations set plan = 'scale' where organization_id = $1", [
    api.organizationId,
  ]);
  expect(ofType(ofFree, 'observation_bucket')).toEqual([]);
  expect(ofType(ofFree, 'observation_bucket.omitted')).toHaveLength(1);
});

it('observations of a day after the start are not in it: it ends beside any beats', async () => {
  const late = await seedMonitor(api.pool, second);
  await insertBeats(api.pool, late, [{ atMs: Date.now() - HOUR_MS }, { atMs: Date.now() + 2 * DAY_MS }]);
  const records = recordsOf(await readExport(asOwner({ project: 'second' })));
  const sequences = ofType(records, 'observation').filter(({ monitorId }) => monitorId === late.monitorId);
  expect(sequences.map(({ sequence }) => sequence)).toEqual([1]);
});
