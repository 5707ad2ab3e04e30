// The history of a monitor over HTTP: observations, change records, its first beat, its addresses.
// Holds: rotatePublishUrl, getFirstBeat, listObservations, listMonitorChanges.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { suspendTimers } from '../support/suspend-timers.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const make = async () =>
  (await api.manage.expectSuccess('createMonitor', { body: { name: 'Job', intervalSeconds: 300 } })).body;
const beat = async (publishUrl: string | undefined, body?: object) =>
  await fetch(`${api.url}${new URL(publishUrl ?? '').pathname}`, {
    method: 'POST',
    headers: body ? { 'content-type': 'application/json' } : {},
    body: body && JSON.stringify(body),
  });

describe('the duration of runs', () => {
  it('the status of a monitor says how long its newest run took, also after beats without a start', async () => {
    const { monitorId, publishUrl } = await make();
    const statusOf = async () =>
      (await api.read.expectSuccess('getMonitor', { params: { monitorId } })).body.status;
    await beat(publishUrl);
    expect(await statusOf()).not.toHaveProperty('lastDurationSeconds');
    await beat(publishUrl, { status: 'start', runId: 'a' });
    await beat(publishUrl, { status: 'fail', runId: 'a' });
    const { body } = await api.read.expectSuccess('listObservations', { params: { monitorId } });
    const durationSeconds = body.items[0]?.durationSeconds;
    expect(durationSeconds).toEqual(expect.any(Number));
    expect(await statusOf()).toMatchObject({ lastDurationSeconds: durationSeconds });
    await beat(publishUrl);
    expect(await statusOf()).toMatchObject({ lastSequence: 4, lastDurationSeconds: durationSeconds });
  });
});

describe('observations', () => {
  it('observations are listed newest first, in pages, with the content of their beats', async () => {
    const { monitorId, publishUrl } = await make();
    await beat(publishUrl, {
      measurements: { rows: 12.5 },
      message: 'done',
      observedAt: '2026-01-02T03:04:05.678+01:00',
      exitStatus: 0,
      runId: 'run-1',
    });
    for (let index = 0; index < 4; index += 1) await beat(publishUrl);
    const params = { monitorId };
    const sequences: number[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await api.read.expectSuccess('listObservations', {
        params,
        query: { limit: 2, cursor },
      });
      sequences.push(...body.items.map((item) => item.sequence));
      cursor = body.nextCursor;
    } while (cursor);
    expect(sequences).toEqual([5, 4, 3, 2, 1]);
    const { body } = await api.read.expectSuccess('listObservations', { params });
    expect(body.items.at(-1)).toMatchObject({
      sequence: 1,
      kind: 'success',
      measurements: { rows: 12.5 },
      message: 'done',
      observedAt: '2026-01-02T02:04:05.678Z',
      exitStatus: 0,
      runId: 'run-1',
      late: false,
      violations: [],
    });
    expect(body.items[0]).toMatchObject({ measurements: {} });
  });

  it('since includes and until excludes its moment in the list of observations', async () => {
    const { monitorId, publishUrl } = await make();
    for (let index = 0; index < 3; index += 1) await beat(publishUrl);
    // Days apart, so that they lie in different partitions.
    const firstMs = Date.now() - 10 * 86_400_000;
    const day = (days: number) => new Date(firstMs + days * 86_400_000).toISOString();
    await api.pool.query(
      `update observations set received_at = $3::timestamptz + sequence * interval '24 hours'
       where project_id = $1 and monitor_key = (select monitor_key from monitors where monitor_id = $2)`,
      [api.projectId, monitorId, day(0)],
    );
    const found = async (query: Record<string, unknown>) => {
      const { body } = await api.read.expectSuccess('listObservations', { params: { monitorId }, query });
      return body.items.map((item) => item.sequence);
    };
    expect(await found({ since: day(2) })).toEqual([3, 2]);
    expect(await found({ until: day(2) })).toEqual([1]);
    expect(await found({ since: day(0.5), until: day(2.5) })).toEqual([2, 1]);
    const query = { since: day(1), until: day(-9) };
    const { problem } = await api.read.call('listObservations', { params: { monitorId }, query });
    expect(problem?.fieldErrors?.[0]?.path).toBe('until');
  });
});

describe('change records', () => {
  it('only the record of enter_maintenance stores a window, not that of a later change of the configuration', async () => {
    const { monitorId } = await make();
    const params = { monitorId };
    const day = (offset: number) => new Date(Date.now() + offset * 86_400_000).toISOString();
    const maintenance = { startsAt: day(0), endsAt: day(1), reason: 'Move' };
    const entered = await api.manage.expectSuccess('changeMonitorLifecycle', {
      params,
      ifMatch: '"configuration-1"',
      body: { action: 'enter_maintenance', maintenance },
    });
    const renamed = { params, ifMatch: entered.etag, body: { patch: { name: 'Renamed' } } };
    await api.manage.expectSuccess('updateMonitor', renamed);
    const { rows } = await api.pool.query(
      `select c.kind, c.maintenance is not null as has_window
       from monitor_changes c join monitors m on m.project_id = c.project_id and m.monitor_key = c.monitor_key
       where m.monitor_id = $1 order by c.configuration_version`,
      [monitorId],
    );
    expect(rows).toEqual([
      { kind: 'configuration', has_window: false },
      { kind: 'lifecycle', has_window: true },
      { kind: 'configuration', has_window: false },
    ]);
  });

  it('change records are listed newest first with actor, request and window', async () => {
    const { monitorId } = await make();
    const params = { monitorId };
    await api.member.expectSuccess('updateMonitor', {
      params,
      ifMatch: '"configuration-1"',
      body: { patch: { name: 'Renamed' } },
    });
    const maintenance = { startsAt: new Date().toISOString(), endsAt: '2099-01-01T00:00:00.000Z' };
    const short = { ...maintenance, endsAt: new Date(Date.now() + 60_000).toISOString(), reason: 'Move' };
    const entered = await api.manage.expectSuccess('changeMonitorLifecycle', {
      params,
      ifMatch: '"configuration-2"',
      body: { action: 'enter_maintenance', maintenance: short },
    });
    const { body } = await api.read.expectSuccess('listMonitorChanges', { params });
    expect(body.items).toMatchObject([
      {
        kind: 'lifecycle',
        configurationVersion: 3,
        action: 'enter_maintenance',
        lifecycleFrom: 'active',
        lifecycleTo: 'active',
        maintenance: short,
        occurredAt: entered.body.updatedAt,
        actor: { kind: 'api_credential' },
        sourceRequestId: entered.headers.get('x-request-id'),
      },
      { kind: 'configuration', configurationVersion: 2, actor: { kind: 'session', id: 'member@acme' } },
      { kind: 'configuration', configurationVersion: 1 },
    ]);
    const first = await api.read.expectSuccess('listMonitorChanges', { params, query: { limit: 2 } });
    const query = { limit: 2, cursor: first.body.nextCursor };
    const second = await api.read.expectSuccess('listMonitorChanges', { params, query });
    expect(second.body.items.map((item) => item.configurationVersion)).toEqual([1]);
    expect(second.body.nextCursor).toBeUndefined();
    expect((await api.other.manage.call('listMonitorChanges', { params })).status).toBe(404);
  });
});

describe('the first beat', () => {
  it('a call that waits for the first beat is answered when it comes', async () => {
    const { monitorId, publishUrl } = await make();
    const params = { monitorId };
    const now = await api.read.expectSuccess('getFirstBeat', { params });
    expect(now.body).toEqual({ state: 'waiting' });
    const resumeTimers = suspendTimers(30_000);
    const waiting = api.read.expectSuccess('getFirstBeat', { params, query: { waitSeconds: 30 } });
    await beat(publishUrl);
    const { body } = await waiting.finally(resumeTimers);
    expect(body.state).toBe('accepted');
    expect(Date.parse(body.nextDeadlineAt ?? '') - Date.parse(body.firstBeatAt ?? '')).toBe(600_000);
    await beat(publishUrl);
    const later = await api.read.expectSuccess('getFirstBeat', { params, query: { waitSeconds: 30 } });
    expect(later.body.firstBeatAt).toBe(body.firstBeatAt);
  });

  it('a wait for the first beat ends with its time or its caller, and lasts 30 seconds at most', async () => {
    const { monitorId } = await make();
    const params = { monitorId };
    const { body } = await api.read.expectSuccess('getFirstBeat', { params, query: { waitSeconds: 1 } });
    expect(body).toEqual({ state: 'waiting' });
    const caller = new AbortController();
    const query = { waitSeconds: 30 };
    const left = api.read.call('getFirstBeat', { params, query, signal: caller.signal });
    caller.abort();
    await expect(left).rejects.toThrow();
    const { problem } = await api.read.call('getFirstBeat', { params, query: { waitSeconds: 31 } });
    expect(problem?.fieldErrors?.[0]?.path).toBe('waitSeconds');
  });

  it('a wait for the first beat is a 404 when the monitor is deleted', async () => {
    const { monitorId } = await make();
    const params = { monitorId };
    const waiting = api.read.call('getFirstBeat', { params, query: { waitSeconds: 20 } });
    await api.manage.expectSuccess('deleteMonitor', { params, ifMatch: '"configuration-1"' });
    expect((await waiting).status).toBe(404);
  });
});

describe('the publish address', () => {
  const rotate = async (
    monitorId: string,
    ifMatch: string,
    overlapSeconds: number,
    idempotencyKey?: string,
  ) =>
    await api.manage.expectSuccess('rotatePublishUrl', {
      params: { monitorId },
      ifMatch,
      body: { overlapSeconds },
      idempotencyKey,
    });

  it('a rotation without an overlap ends the old address at once, also where it is cached', async () => {
    const { monitorId, publishUrl } = await make();
    expect((await beat(publishUrl)).status).toBe(200);
    const { body } = await rotate(monitorId, '"configuration-1"', 0);
    expect(body.previousUrlEndsAt).toBeUndefined();
    expect((await beat(body.publishUrl)).status).toBe(200);
    expect((await beat(publishUrl)).status).toBe(404);
    const { body: now } = await api.manage.expectSuccess('getMonitor', { params: { monitorId } });
    expect(now).toMatchObject({ publishUrl: body.publishUrl, configurationVersion: 2 });
  });

  it('the old address works until its overlap ends, which a later rotation does not extend', async () => {
    const { monitorId, publishUrl } = await make();
    const key = randomUUID();
    const first = await rotate(monitorId, '"configuration-1"', 3600, key);
    expect(first.body.previousUrlEndsAt).toBeDefined();
    expect((await beat(publishUrl)).status).toBe(200);
    expect((await beat(first.body.publishUrl)).status).toBe(200);
    const replay = await rotate(monitorId, '"configuration-1"', 3600, key);
    expect(replay.body).toEqual({ replayed: true, previousUrlEndsAt: first.body.previousUrlEndsAt });
    await rotate(monitorId, '"configuration-2"', 86_400);
    const { rows } = await api.pool.query<{ ends_at: Date }>(
      'select ends_at from publish_addresses where address = $1',
      [publishUrl?.split('/').at(-1)],
    );
    expect(rows[0]?.ends_at.toISOString()).toBe(first.body.previousUrlEndsAt);
    await rotate(monitorId, '"configuration-3"', 0);
    expect((await beat(publishUrl)).status).toBe(404);
  });
});
