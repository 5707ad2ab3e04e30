// Monitors over HTTP: made once, read back, changed by patch, deleted for good.
// Holds: createMonitor, getMonitor, updateMonitor, deleteMonitor.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { cancelAll } from '../support/sweeper-fixture.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

const make = async (body: Record<string, unknown> = {}) =>
  await api.manage.expectSuccess('createMonitor', {
    body: { name: 'Backup', intervalSeconds: 300, ...body },
  });

const named = (monitorId: string) => ({ params: { monitorId } });

const beat = async (publishUrl: string | undefined, suffix = '') => {
  const { pathname } = new URL(publishUrl ?? '');
  return await fetch(`${api.url}${pathname}${suffix}`, { method: 'POST' });
};

describe('create', () => {
  it('a new monitor is answered with 201, defaults, a publish address and version 1', async () => {
    const { status, body, etag } = await make({ intervalSeconds: undefined });
    expect(status).toBe(201);
    expect(etag).toBe('"configuration-1"');
    expect(body).toMatchObject({
      name: 'Backup',
      graceSeconds: 300,
      jurisdiction: 'unrestricted',
      callback: { kind: 'organization_default' },
      awaitFirstBeat: true,
      recoveryBeats: 1,
      missedBeatsToOpen: 1,
      measurements: {},
      labels: {},
      lifecycle: 'active',
      configurationVersion: 1,
      projectId: api.projectId,
      replayed: false,
      status: { health: 'waiting', lastSequence: 0, cadence: { source: 'learning' }, openIncidents: [] },
    });
    expect(body.monitorKey).toBe(body.monitorId);
    expect(body.publishUrl).toMatch(/\/ping\/[0-9a-f-]{36}$/);
    expect(body.status.nextDeadlineAt).toBeUndefined();
  });

  it('a replayed create is a 200 with the same address and without the signing secret', async () => {
    const idempotencyKey = randomUUID();
    const request = {
      idempotencyKey,
      body: { name: 'Inline', callback: { kind: 'inline', url: 'http://127.0.0.1:9/alerts' } },
    };
    const first = await api.manage.expectSuccess('createMonitor', request);
    expect(first.status).toBe(201);
    expect(first.body.signingSecret?.secret).toMatch(/^sigcb_v1_/);
    expect(first.body.callback).toEqual({ kind: 'inline', url: 'http://127.0.0.1:9/alerts' });
    const second = await api.manage.expectSuccess('createMonitor', request);
    expect(second.status).toBe(200);
    expect(second.body).toMatchObject({ replayed: true, publishUrl: first.body.publishUrl });
    expect(second.body.signingSecret).toBeUndefined();
    expect(second.etag).toBe('"configuration-1"');
  });

  it('a monitorId is unique in a jurisdiction', async () => {
    await make({ monitorId: 'chosen', jurisdiction: 'eu' });
    const again = await api.manage.call('createMonitor', {
      body: { name: 'Other', monitorId: 'chosen', jurisdiction: 'eu' },
    });
    expect(again.problem).toMatchObject({
      status: 409,
      code: 'service.conflict',
      fieldErrors: [{ path: 'monitorId', code: 'not_unique' }],
    });
    expect((await make({ monitorId: 'chosen', jurisdiction: 'us' })).status).toBe(201);
  });

  it('of many monitors created at once with one id one succeeds', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        api.manage.call('createMonitor', { body: { name: 'Race', monitorId: 'race' } }),
      ),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(7).fill(409)]);
  });

  it('without awaitFirstBeat the deadline runs from creation', async () => {
    const { body } = await make({ awaitFirstBeat: false, graceSeconds: 60 });
    const deadline = Date.parse(body.status.nextDeadlineAt ?? '');
    expect(deadline).toBe(Date.parse(body.createdAt) + 360_000);
    expect(body.status.health).toBe('waiting');
  });

  it('a monitor with a private inline destination is refused and leaves no rows', async () => {
    const body = {
      name: 'Inside',
      monitorId: 'inside',
      callback: { kind: 'inline', url: 'https://10.0.0.1/' },
    };
    const { problem } = await api.manage.call('createMonitor', { body });
    expect(problem).toMatchObject({ status: 400, code: 'service.callback_destination_rejected' });
    expect(problem?.fieldErrors?.[0]?.path).toBe('callback.url');
    expect((await api.manage.call('getMonitor', named('inside'))).status).toBe(404);
  });

  it('the publish address is shown only to those who may manage', async () => {
    const { body } = await make();
    const read = await api.read.expectSuccess('getMonitor', named(body.monitorId));
    expect(read.body.publishUrl).toBeUndefined();
    const managed = await api.member.expectSuccess('getMonitor', named(body.monitorId));
    expect(managed.body.publishUrl).toBe(body.publishUrl);
    expect((await api.read.call('createMonitor', { body: { name: 'No' } })).status).toBe(403);
  });
});

describe('limits of the plan', () => {
  it('the limit of active monitors holds when many are created at once', async () => {
    const free = await openApiFixture({ plan: 'free' });
    try {
      const answers = await Promise.all(
        Array.from({ length: 24 }, (_, index) =>
          free.manage.call('createMonitor', { body: { name: `m${index}`, monitorId: `m${index}` } }),
        ),
      );
      const made = answers.filter((answer) => answer.status === 201);
      const refused = answers.find((answer) => answer.status === 403);
      expect(made).toHaveLength(20);
      expect(refused?.problem).toMatchObject({
        code: 'service.plan_limit_reached',
        limit: { dimension: 'active_monitors', limit: 20, current: 20, attempted: 21, plan: { id: 'free' } },
      });
      const some = made[0]?.body.monitorId ?? '';
      await free.manage.expectSuccess('deleteMonitor', { ...named(some), ifMatch: '"configuration-1"' });
      await free.manage.expectSuccess('createMonitor', { body: { name: 'one more' } });

      const short = await free.manage.call('createMonitor', { body: { name: 'x', intervalSeconds: 60 } });
      expect(short.problem?.limit).toMatchObject({
        dimension: 'minimum_interval_seconds',
        limit: 300,
        attempted: 60,
        remediation: 'increase_interval',
      });
      expect(short.problem?.remediation).toMatchObject([{ documentation: '/docs/limits#plans' }]);
      const schedule = { cron: '*/2 8 * * *', timeZone: 'UTC' };
      const cron = await free.manage.call('createMonitor', { body: { name: 'x', schedule } });
      expect(cron.problem?.limit).toMatchObject({ attempted: 120 });
    } finally {
      await free.close();
    }
  });
});

describe('get', () => {
  it('a monitor shows its latest observation and live status after a beat', async () => {
    const { body } = await make({ graceSeconds: 60 });
    expect((await beat(body.publishUrl)).status).toBe(200);
    expect((await beat(body.publishUrl, '/log')).status).toBe(200);
    const read = await api.read.expectSuccess('getMonitor', named(body.monitorId));
    expect(read.body.latestObservation).toMatchObject({ sequence: 2, kind: 'log', late: false });
    const { status } = read.body;
    expect(status).toMatchObject({ health: 'up', lastSequence: 2 });
    expect(status.cadence).toEqual({ source: 'configured', intervalSeconds: 300 });
    expect(Date.parse(status.nextDeadlineAt ?? '') - Date.parse(status.lastBeatAt ?? '')).toBe(360_000);
  });

  it('an id that exists in two jurisdictions is a conflict without ?jurisdiction=', async () => {
    await make({ monitorId: 'twice', jurisdiction: 'eu' });
    await make({ monitorId: 'twice', jurisdiction: 'us' });
    const unclear = await api.read.call('getMonitor', named('twice'));
    expect(unclear.problem).toMatchObject({ status: 409, code: 'service.conflict' });
    const clear = await api.read.expectSuccess('getMonitor', {
      ...named('twice'),
      query: { jurisdiction: 'us' },
    });
    expect(clear.body.jurisdiction).toBe('us');
    const absent = await api.read.call('getMonitor', {
      ...named('twice'),
      query: { jurisdiction: 'fedramp' },
    });
    expect(absent.status).toBe(404);
  });

  it('a monitor of another organization is a 404', async () => {
    const { body } = await make();
    const foreign = await api.other.manage.call('getMonitor', named(body.monitorId));
    expect(foreign.problem?.code).toBe('service.not_found');
  });
});

describe('patch', () => {
  const patch = async (monitorId: string, ifMatch: string, change: Record<string, unknown>) =>
    await api.manage.call('updateMonitor', { ...named(monitorId), ifMatch, body: { patch: change } });

  it('a patch merges its fields, raises the version and keeps the other fields', async () => {
    const { body, etag } = await make({ labels: { team: 'ops', tier: '1' }, description: 'Nightly' });
    const changed = await patch(body.monitorId, etag, {
      graceSeconds: 1,
      labels: { tier: null, zone: 'a' },
      measurements: { rows: { minimum: 1 } },
    });
    expect(changed.body).toMatchObject({
      graceSeconds: 60,
      labels: { team: 'ops', zone: 'a' },
      description: 'Nightly',
      configurationVersion: 2,
      measurements: { rows: { minimum: 1, metricType: 'gauge', ruleAction: { mode: 'active', version: 1 } } },
    });
    expect(changed.etag).toBe('"configuration-2"');
    const removed = await patch(body.monitorId, changed.etag, { measurements: { rows: null } });
    expect(removed.body.measurements).toEqual({});
  });

  it('a patch that changes nothing keeps the version', async () => {
    const { body, etag } = await make({ labels: { a: 'b' } });
    const same = await patch(body.monitorId, etag, { name: ' Backup ', labels: { a: 'b' }, schedule: null });
    expect(same.status).toBe(200);
    expect(same.etag).toBe(etag);
    expect(same.body.updatedAt).toBe(body.updatedAt);
  });

  it('a patch needs the current ETag', async () => {
    const { body, etag } = await make();
    const without = await api.manage.call('updateMonitor', {
      ...named(body.monitorId),
      body: { patch: { name: 'x' } },
    });
    expect(without.problem).toMatchObject({ status: 428, code: 'service.precondition_required' });
    await patch(body.monitorId, etag, { name: 'Newer' });
    const stale = await patch(body.monitorId, etag, { name: 'Lost' });
    expect(stale.problem).toMatchObject({ status: 412, code: 'service.precondition_failed' });
    expect((await patch(body.monitorId, '"something-else"', { name: 'x' })).status).toBe(412);
  });

  it('of many patches of one version one succeeds', async () => {
    const { body, etag } = await make();
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, index) => patch(body.monitorId, etag, { name: `n${index}` })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, ...Array(5).fill(412)]);
  });

  it('a patch to both interval and schedule is refused', async () => {
    const { body, etag } = await make();
    const schedule = { cron: '0 3 * * *', timeZone: 'Europe/Berlin' };
    const both = await patch(body.monitorId, etag, { schedule });
    expect(both.problem).toMatchObject({ status: 400, fieldErrors: [{ path: 'patch.schedule' }] });
    const swapped = await patch(body.monitorId, etag, { schedule, intervalSeconds: null });
    expect(swapped.body).toMatchObject({ schedule, status: { cadence: { source: 'schedule' } } });
    expect(swapped.body.intervalSeconds).toBeUndefined();
  });

  it('a patch of a field that cannot change is refused', async () => {
    const { body, etag } = await make();
    for (const change of [{ jurisdiction: 'eu' }, { monitorId: 'other' }, { lifecycle: 'paused' }]) {
      const { problem } = await patch(body.monitorId, etag, change);
      expect(problem?.fieldErrors?.[0]).toMatchObject({
        code: 'unknown_field',
        path: `patch.${Object.keys(change)[0]}`,
      });
    }
  });

  it('a new interval moves a running deadline, never into the past', async () => {
    const { body, etag } = await make({ intervalSeconds: 3600, graceSeconds: 60 });
    await beat(body.publishUrl);
    const longer = await patch(body.monitorId, etag, { intervalSeconds: 7200 });
    const { status } = longer.body;
    expect(Date.parse(status.nextDeadlineAt ?? '') - Date.parse(status.lastBeatAt ?? '')).toBe(7_260_000);
    await api.pool.query(
      'update monitor_live set anchor_ms = anchor_ms - 7000000, deadline_ms = deadline_ms - 7000000 where project_id = $1',
      [api.projectId],
    );
    const shorter = await patch(body.monitorId, longer.etag, { intervalSeconds: 60 });
    const gap = Date.parse(shorter.body.status.nextDeadlineAt ?? '') - Date.parse(shorter.body.updatedAt);
    expect(gap).toBe(60_000);
    const renamed = await patch(body.monitorId, shorter.etag, { name: 'Only the name' });
    expect(renamed.body.status.nextDeadlineAt).toBe(shorter.body.status.nextDeadlineAt);
  });

  it('awaitFirstBeat starts and stops the clock before the first beat', async () => {
    const { body, etag } = await make();
    const started = await patch(body.monitorId, etag, { awaitFirstBeat: false });
    expect(Date.parse(started.body.status.nextDeadlineAt ?? '')).toBe(
      Date.parse(started.body.updatedAt) + 600_000,
    );
    const stopped = await patch(body.monitorId, started.etag, { awaitFirstBeat: null });
    expect(stopped.body.status.nextDeadlineAt).toBeUndefined();
  });
});

describe('beats and changes at the same time', () => {
  it('concurrent beats and patches are all kept, and the newest configuration sets the deadline', async () => {
    const { body } = await make({ intervalSeconds: 300, graceSeconds: 60 });
    const params = { monitorId: body.monitorId };
    const beats = Array.from({ length: 60 }, () => beat(body.publishUrl));
    for (let version = 1; version <= 6; version += 1) {
      const ifMatch = `"configuration-${version}"`;
      const change = { patch: { intervalSeconds: 300 + version * 60 } };
      await api.manage.expectSuccess('updateMonitor', { params, ifMatch, body: change });
    }
    expect((await Promise.all(beats)).map((answer) => answer.status)).toEqual(Array(60).fill(200));
    expect((await beat(body.publishUrl)).status).toBe(200);
    const { body: now } = await api.manage.expectSuccess('getMonitor', { params });
    expect(now).toMatchObject({
      configurationVersion: 7,
      intervalSeconds: 660,
      status: { lastSequence: 61 },
    });
    const { nextDeadlineAt = '', lastBeatAt = '' } = now.status;
    expect(Date.parse(nextDeadlineAt) - Date.parse(lastBeatAt)).toBe(720_000);
  });
});

describe('delete', () => {
  it('a deleted monitor has no routes, address or open work, and its id is free', async () => {
    const { body, etag } = await make({
      monitorId: 'doomed',
      callback: { kind: 'inline', url: 'http://127.0.0.1:9/' },
    });
    await beat(body.publishUrl, '/fail');
    const [incident] = (await api.manage.expectSuccess('listMonitorIncidents', named('doomed'))).body.items;
    expect(incident?.state).toBe('open');
    const stale = await api.manage.call('deleteMonitor', {
      ...named('doomed'),
      ifMatch: '"configuration-9"',
    });
    expect(stale.status).toBe(412);

    const gone = await api.manage.expectSuccess('deleteMonitor', { ...named('doomed'), ifMatch: etag });
    expect(gone.status).toBe(204);
    expect((await api.manage.call('getMonitor', named('doomed'))).status).toBe(404);
    expect((await beat(body.publishUrl)).status).toBe(404);
    const incidentId = incident?.incidentId ?? '';
    const kept = await api.manage.expectSuccess('getIncident', { params: { incidentId } });
    expect(kept.body.state).toBe('resolved');
    await cancelAll(api.pool);
    const deliveries = await api.manage.expectSuccess('listDeliveries', { query: { incidentId } });
    expect(deliveries.body.items.map(({ event, state }) => ({ event, state }))).toEqual([
      { event: 'incident.opened', state: 'canceled' },
    ]);
    const again = await make({ monitorId: 'doomed' });
    expect(again.body.publishUrl).not.toBe(body.publishUrl);
  });
});
