// The export by HTTP: who gets what, in which order, and how it ends.
// Holds: exportOrganization.
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EXPORT_COLUMNS } from '../../src/contract/resources/export.ts';
import type { Problem } from '../../src/contract/resources/problem.ts';
import { newUuid } from '../../src/domain/id.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  cellsOf,
  type ExportCall,
  fetchExport,
  ofType,
  readExport,
  recordsOf,
} from '../support/export-reader.ts';
import { DAY_MS, daysAgo, HOUR_MS, insertBeats } from '../support/past-beats.ts';
import { type SeedMonitor, seedCredential, seedMonitor, seedMonitors } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BeatenMonitor, makeMonitor } from './monitor-fixture.ts';

const SECRET_PATH = '/hooks/T0SECRETPATH';

let api: ApiFixture;
let proxy: TcpProxy;
let monitor: BeatenMonitor;
let publishUrl: string;
/** Of a second project of the organization. */
let second: SeedMonitor;
let foreign: SeedMonitor;

beforeAll(async () => {
  api = await openApiFixture({
    databaseUrl: async (url) => {
      proxy = await TcpProxy.start(url);
      return proxy.url;
    },
  });
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
  const { organizationId } = api;
  const { projectId } = await insertProject(api.pool, {
    projectId: newUuid(),
    organizationId,
    name: 'second',
  });
  second = await seedMonitor(api.pool, { organizationId, projectId });
  foreign = await seedMonitor(api.pool, api.other);
  for (const one of [second, foreign]) await insertBeats(api.pool, one, [{ atMs: Date.now() - HOUR_MS }]);
});
afterAll(async () => {
  await api?.close();
  await proxy?.close();
});

const asCredential = (more: Partial<ExportCall> = {}): ExportCall => ({
  url: api.url,
  token: api.tokens.manage,
  ...more,
});
const asOwner = (more: Partial<ExportCall> = {}): ExportCall =>
  asCredential({ token: api.tokens.owner, ...more });

const problemOf = async (answer: Response) => (await answer.json()) as Problem;

describe('what an export has', () => {
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
    const { items } = (await api.read.expectSuccess('listObservations', { params: { monitorId } })).body;
    expect(items).toHaveLength(3);
    const ofMonitor = {
      type: 'observation',
      projectId: api.projectId,
      monitorId,
      jurisdiction: 'unrestricted',
    };
    expect(ofType(records, 'observation')).toEqual(
      items.reverse().map((item) => ({ ...ofMonitor, ...item })),
    );
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
      expect(ofType(records, 'monitor').map(({ callback }) => callback)).toEqual([
        { kind: 'inline', url: '' },
      ]);
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

  it('observations that came long after the start are not in it: it ends beside any beats', async () => {
    const late = await seedMonitor(api.pool, second);
    await insertBeats(api.pool, late, [{ atMs: Date.now() - HOUR_MS }, { atMs: Date.now() + DAY_MS }]);
    const records = recordsOf(await readExport(asOwner({ project: 'second' })));
    const sequences = ofType(records, 'observation').filter(({ monitorId }) => monitorId === late.monitorId);
    expect(sequences.map(({ sequence }) => sequence)).toEqual([1]);
  });
});

describe('who gets what', () => {
  const projectsOf = (text: string) =>
    [
      ...new Set(
        recordsOf(text).flatMap((record) =>
          'projectId' in record && record.projectId ? [record.projectId] : [],
        ),
      ),
    ].sort();

  it('a credential gets its project, and nothing of another one', async () => {
    expect(projectsOf(await readExport(asCredential()))).toEqual([api.projectId]);
  });

  it('an owner gets the organization, or the project that the session names', async () => {
    const both = [api.projectId, second.projectId].sort();
    const whole = await readExport(asOwner());
    expect(projectsOf(whole)).toEqual(both);
    expect(whole.includes(foreign.monitorId)).toBe(false);
    expect(projectsOf(await readExport(asOwner({ project: 'second' })))).toEqual([second.projectId]);
  });

  it.each(['member', 'viewer', 'operator'] as const)(
    'a session of role %s must name a project',
    async (role) => {
      const token = api.tokens[role];
      const refused = await fetchExport(asCredential({ token }));
      expect(refused.status).toBe(400);
      expect((await problemOf(refused)).fieldErrors).toMatchObject([
        { path: 'Service-Project', code: 'required' },
      ]);
      expect(projectsOf(await readExport(asCredential({ token, project: 'second' })))).toEqual([
        second.projectId,
      ]);
    },
  );

  it('the project of another organization is not found', async () => {
    const answer = await fetchExport(asOwner({ project: api.other.projectId }));
    expect([answer.status, (await problemOf(answer)).code]).toEqual([404, 'service.not_found']);
  });

  it.each([
    ['no cursor', 'none'],
    ['the cursor of a list', Buffer.from('["projects","x"]').toString('base64url')],
  ])('%s is refused', async (_, cursor) => {
    const { status, problem } = await api.read.call('exportOrganization', { query: { cursor } });
    expect(status).toBe(400);
    expect(problem?.fieldErrors).toMatchObject([{ path: 'cursor', code: 'invalid_cursor' }]);
  });

  it('the cursor of another project, format or extent is refused, and a forged one reads nothing of others', async () => {
    const cursor =
      ofType(recordsOf(await readExport(asOwner({ project: 'second' }))), 'checkpoint').at(-1)?.cursor ?? '';
    for (const call of [
      asCredential({ query: { cursor } }),
      asOwner({ query: { cursor } }),
      asOwner({ project: 'second', query: { cursor, format: 'csv' } }),
      asOwner({ project: 'second', query: { cursor, includeObservationBuckets: 'true' } }),
    ])
      expect((await fetchExport(call)).status).toBe(400);
    const [name, started, from] = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const future = Buffer.from(
      JSON.stringify([name, started + DAY_MS, from, 'observation', second.projectId]),
    ).toString('base64url');
    expect((await fetchExport(asOwner({ project: 'second', query: { cursor: future } }))).status).toBe(400);
    const forged = Buffer.from(
      JSON.stringify([name, started, from, 'observation', api.other.projectId]),
    ).toString('base64url');
    const records = recordsOf(await readExport(asOwner({ project: 'second', query: { cursor: forged } })));
    expect(records.some((record) => 'monitorId' in record && record.monitorId === foreign.monitorId)).toBe(
      false,
    );
  });

  it('hours are refused in a table', async () => {
    const answer = await fetchExport(
      asCredential({ query: { format: 'csv', includeObservationBuckets: 'true' } }),
    );
    expect(answer.status).toBe(400);
    expect((await problemOf(answer)).fieldErrors).toMatchObject([{ path: 'includeObservationBuckets' }]);
  });

  it('HEAD answers with the headers alone', async () => {
    const answer = await fetchExport(asCredential({ method: 'HEAD' }));
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expect(await answer.text()).toBe('');
  });
});

describe('how an export ends', () => {
  /** So many observations that no buffer between here and there holds them. */
  let large: SeedMonitor;
  const COUNT = 60_000;
  /** With its end: a piece may end within a line. */
  const CHECKPOINT_LINE = /"checkpoint".*\n/;
  beforeAll(async () => {
    const { organizationId } = api;
    const { projectId } = await insertProject(api.pool, {
      projectId: newUuid(),
      organizationId,
      name: 'large',
    });
    const [one] = await seedMonitors(api.pool, { organizationId, projectId }, 1);
    if (!one) throw new Error('no monitor');
    large = one;
    await api.pool.query(
      `insert into observations (project_id, monitor_key, sequence, received_at, kind, message)
       select $1, $2, n, clock_timestamp() - interval '1 hour' + n * interval '1 millisecond', 'success', repeat('m', 1000)
       from generate_series(1, $3::integer) n`,
      [projectId, large.monitorKey, COUNT],
    );
  });
  const ofLarge = (more: Partial<ExportCall> = {}) => asOwner({ project: 'large', ...more });

  it('a checkpoint comes at least every 1,000 records', async () => {
    let since = 0;
    for (const { type } of recordsOf(await readExport(ofLarge()))) {
      since = type === 'checkpoint' ? 0 : since + 1;
      expect(since).toBeLessThanOrEqual(1_000);
    }
  });

  it('a database that goes away breaks the stream, and the export goes on from its last checkpoint', async () => {
    const answer = await fetchExport(ofLarge());
    let text = '';
    const read = (async () => {
      const decoder = new TextDecoder();
      for await (const piece of answer.body ?? []) {
        const hadCheckpoint = CHECKPOINT_LINE.test(text);
        text += decoder.decode(piece, { stream: true });
        if (!hadCheckpoint && CHECKPOINT_LINE.test(text)) await proxy.refuse();
      }
    })();
    await expect(read).rejects.toThrow();
    await proxy.accept();
    const whole = text.slice(0, text.lastIndexOf('\n') + 1);
    const before = recordsOf(whole);
    const last = before.findLastIndex(({ type }) => type === 'checkpoint');
    const checkpoint = before[last];
    if (checkpoint?.type !== 'checkpoint') throw new Error('The stream broke before its first checkpoint.');
    expect(checkpoint.complete).toBe(false);
    const after = await waitFor(() => readExport(ofLarge({ query: { cursor: checkpoint.cursor } })), {
      what: 'the database answers again',
    });
    const sequences = ofType([...before.slice(0, last), ...recordsOf(after)], 'observation').map(
      ({ sequence }) => sequence,
    );
    expect(sequences).toEqual(Array.from({ length: COUNT }, (_, place) => place + 1));
  });

  /** A new credential of the project. */
  const asNew = async (more: Partial<ExportCall> = {}) =>
    asCredential({
      token: await seedCredential(api.pool, { projectId: large.projectId, preset: 'read' }),
      ...more,
    });

  it('an organization has four exports at once, one caller two, others go on, and one that is left makes room', async () => {
    const left = new AbortController();
    const isOpen = async (call: ExportCall) => (await fetchExport({ ...call, signal: left.signal })).status;
    const requireFull = async (call: ExportCall) => {
      const refused = await fetchExport(call);
      expect([refused.status, (await problemOf(refused)).code]).toEqual([429, 'service.rate_limited']);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    };
    const credential = await asNew();
    for (const call of [ofLarge(), credential]) {
      expect([await isOpen(call), await isOpen(call)]).toEqual([200, 200]);
      await requireFull(call);
    }
    await requireFull(await asNew());
    const token = await seedCredential(api.pool, { projectId: api.other.projectId, preset: 'read' });
    expect((await fetchExport(asCredential({ token }))).status).toBe(200);
    left.abort();
    await waitFor(async () => (await fetchExport(ofLarge({ method: 'HEAD' }))).status === 200, {
      what: 'there is room again',
    });
  });

  it('a reader that does not read holds no connection to the database', async () => {
    const left = new AbortController();
    const answer = await fetchExport(ofLarge({ signal: left.signal }));
    // Sessions whose newest statement reads a page: one that still holds its transaction is not idle.
    const readPageSessions = async () => {
      const { rows } = await api.pool.query<{ state: string }>(
        `select state from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and query ~ 'with found as materialized|^commit'`,
      );
      return rows.map(({ state }) => state);
    };
    await waitFor(
      async () => {
        const states = await readPageSessions();
        return states.length > 0 && states.every((state) => state === 'idle');
      },
      { what: 'the page is read, and nothing holds a connection' },
    );
    expect(answer.status).toBe(200);
    left.abort();
    await answer.text().catch(() => undefined);
  });

  it('the export of a credential that is revoked breaks off', async () => {
    const { projectId } = large;
    const token = await seedCredential(api.pool, { projectId, preset: 'read' });
    const answer = await fetchExport(asCredential({ token }));
    await api.pool.query('update credentials set revoked_at = clock_timestamp() where project_id = $1', [
      projectId,
    ]);
    const readSlowly = async () => {
      for await (const _piece of answer.body ?? []) await setTimeout(50);
    };
    await expect(readSlowly()).rejects.toThrow();
  });

  it('the export of a credential that is revoked breaks off also where nobody reads', async () => {
    const credentials = [await asNew(), await asNew()];
    const open = await Promise.all([...credentials, ...credentials].map((call) => fetchExport(call)));
    expect((await fetchExport(ofLarge({ method: 'HEAD' }))).status).toBe(429);
    await api.pool.query('update credentials set revoked_at = clock_timestamp() where project_id = $1', [
      large.projectId,
    ]);
    await waitFor(async () => (await fetchExport(ofLarge({ method: 'HEAD' }))).status === 200, {
      what: 'there is room again',
    });
    for (const answer of open) await answer.text().catch(() => undefined);
  });

  it('a process that ends breaks its exports off', async () => {
    const replica = await api.startReplica();
    const answer = await fetchExport(ofLarge({ url: replica.url }));
    const closed = replica.close();
    await expect(answer.text()).rejects.toThrow();
    await closed;
  });
});
