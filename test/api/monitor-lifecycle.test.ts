// Lifecycle actions over HTTP (docs/contract/monitors.md): what each does to clock, incidents, address and allowance.
// Holds: changeMonitorLifecycle.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';

let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
});

async function make(body: Record<string, unknown> = {}) {
  const request = { body: { name: 'Job', intervalSeconds: 300, graceSeconds: 60, ...body } };
  return await api.manage.expectSuccess('createMonitor', request);
}

async function act(
  monitorId: string,
  ifMatch: string,
  body: Record<string, unknown>,
  client: ApiClient = api.manage,
) {
  return await client.call('changeMonitorLifecycle', { params: { monitorId }, ifMatch, body });
}

const beat = async (publishUrl: string | undefined, suffix = '') =>
  await fetch(`${api.url}${new URL(publishUrl ?? '').pathname}${suffix}`, { method: 'POST' });

const iso = (offsetSeconds: number) => new Date(Date.now() + offsetSeconds * 1000).toISOString();
const secondsBetween = (from: string | undefined, to: string | undefined) =>
  (Date.parse(to ?? '') - Date.parse(from ?? '')) / 1000;

describe('pause and resume', () => {
  it('a paused monitor has no deadline and records beats, and resume gives it interval and grace', async () => {
    const { body, etag } = await make();
    await beat(body.publishUrl);
    const paused = await act(body.monitorId, etag, { action: 'pause' });
    expect(paused.body).toMatchObject({ lifecycle: 'paused', status: { health: 'paused' } });
    expect(paused.body.status.nextDeadlineAt).toBeUndefined();
    expect((await beat(body.publishUrl)).status).toBe(200);
    const seen = await api.read.expectSuccess('getMonitor', { params: { monitorId: body.monitorId } });
    expect(seen.body.status.lastSequence).toBe(2);
    expect(seen.body.status.nextDeadlineAt).toBeUndefined();
    const resumed = await act(body.monitorId, paused.etag, { action: 'resume' });
    expect(secondsBetween(resumed.body.updatedAt, resumed.body.status.nextDeadlineAt)).toBe(360);
  });

  it('resume starts a deadline also before the first beat', async () => {
    const { body, etag } = await make();
    const paused = await act(body.monitorId, etag, { action: 'pause' });
    const resumed = await act(body.monitorId, paused.etag, { action: 'resume' });
    expect(resumed.body.status.health).toBe('waiting');
    expect(secondsBetween(resumed.body.updatedAt, resumed.body.status.nextDeadlineAt)).toBe(360);
  });
});

describe('archive and restore', () => {
  it('archive resolves incidents with an alert, refuses beats, and can be undone for 30 days', async () => {
    const receiver = { kind: 'inline', url: 'http://127.0.0.1:9/' };
    const { body, etag } = await make({ callback: receiver });
    await beat(body.publishUrl, '/fail');
    const archived = await act(body.monitorId, etag, { action: 'archive' });
    expect(archived.body).toMatchObject({
      lifecycle: 'archived',
      status: { health: 'archived', openIncidents: [] },
    });
    expect(secondsBetween(archived.body.updatedAt, archived.body.restorableUntil)).toBe(30 * 86_400);
    const refused = await beat(body.publishUrl);
    expect(refused.status).toBe(409);

    const params = { monitorId: body.monitorId };
    const [incident] = (await api.read.expectSuccess('listMonitorIncidents', { params })).body.items;
    expect(incident?.state).toBe('resolved');
    const query = { incidentId: incident?.incidentId };
    const deliveries = (await api.read.expectSuccess('listDeliveries', { query })).body.items;
    expect(deliveries.map((it) => it.event).sort()).toEqual(['incident.opened', 'incident.resolved']);

    const restored = await act(body.monitorId, archived.etag, { action: 'restore' });
    expect(restored.body).toMatchObject({ lifecycle: 'active' });
    expect(restored.body.restorableUntil).toBeUndefined();
    expect(secondsBetween(restored.body.updatedAt, restored.body.status.nextDeadlineAt)).toBe(360);
    expect((await beat(body.publishUrl)).status).toBe(200);
  });

  it('archive frees a slot of the plan, and restore needs one', async () => {
    const free = await openApiFixture({ plan: 'free' });
    try {
      for (let index = 0; index < 20; index += 1) {
        await free.manage.expectSuccess('createMonitor', {
          body: { name: `m${index}`, monitorId: `m${index}` },
        });
      }
      const archived = await act('m0', '"configuration-1"', { action: 'archive' }, free.manage);
      await free.manage.expectSuccess('createMonitor', { body: { name: 'new', monitorId: 'new' } });
      const refused = await act('m0', archived.etag, { action: 'restore' }, free.manage);
      expect(refused.problem).toMatchObject({
        status: 403,
        limit: { dimension: 'active_monitors', limit: 20 },
      });
      const deleted = { params: { monitorId: 'm1' }, ifMatch: '"configuration-1"' };
      await free.manage.expectSuccess('deleteMonitor', deleted);
      const restored = await act('m0', archived.etag, { action: 'restore' }, free.manage);
      expect(restored.status).toBe(200);
      // Deleting an archived monitor frees no slot: archive has freed it.
      const again = await act('m0', restored.etag, { action: 'archive' }, free.manage);
      await free.manage.expectSuccess('deleteMonitor', { params: { monitorId: 'm0' }, ifMatch: again.etag });
      const { rows } = await free.pool.query(
        'select active_monitors from organizations where organization_id = $1',
        [free.organizationId],
      );
      expect(rows).toEqual([{ active_monitors: 19 }]);
    } finally {
      await free.close();
    }
  });
});

describe('maintenance', () => {
  it('maintenance moves a deadline inside its window to the end of the window', async () => {
    const { body, etag } = await make();
    await beat(body.publishUrl);
    const maintenance = { startsAt: iso(-5), endsAt: iso(3600), reason: 'Upgrade' };
    const entered = await act(body.monitorId, etag, { action: 'enter_maintenance', maintenance });
    expect(entered.body.lifecycle).toBe('active');
    expect(entered.body.status).toMatchObject({
      health: 'maintenance',
      maintenance,
      nextDeadlineAt: maintenance.endsAt,
    });
    const shorter = { startsAt: iso(-5), endsAt: iso(600) };
    const replaced = await act(body.monitorId, entered.etag, {
      action: 'enter_maintenance',
      maintenance: shorter,
    });
    expect(replaced.body.status.nextDeadlineAt).toBe(shorter.endsAt);
    expect(replaced.body.status.maintenance).toEqual(shorter);
    const left = await act(body.monitorId, replaced.etag, { action: 'exit_maintenance' });
    expect(left.body.status.maintenance).toBeUndefined();
    expect(secondsBetween(left.body.updatedAt, left.body.status.nextDeadlineAt)).toBe(360);
    const again = await act(body.monitorId, left.etag, { action: 'exit_maintenance' });
    expect(again.problem).toMatchObject({ status: 409, code: 'service.conflict' });
  });

  it('a future window is shown, and exit_maintenance ends it', async () => {
    const { body, etag } = await make();
    const maintenance = { startsAt: iso(3600), endsAt: iso(7200) };
    const planned = await act(body.monitorId, etag, { action: 'enter_maintenance', maintenance });
    expect(planned.body.status).toMatchObject({ health: 'waiting', maintenance });
    const left = await act(body.monitorId, planned.etag, { action: 'exit_maintenance' });
    expect(left.body.status.maintenance).toBeUndefined();
  });

  it.each([
    [{ startsAt: iso(10), endsAt: iso(5) }, 'maintenance.endsAt'],
    [{ startsAt: iso(-20), endsAt: iso(-10) }, 'maintenance.endsAt'],
    [{ startsAt: iso(0), endsAt: iso(30 * 86_400 + 3_600) }, 'maintenance.endsAt'],
    [undefined, 'maintenance'],
  ])('the window %o is refused', async (maintenance, path) => {
    const { body, etag } = await make();
    const { problem } = await act(body.monitorId, etag, { action: 'enter_maintenance', maintenance });
    expect(problem).toMatchObject({ status: 400, fieldErrors: [{ path }] });
  });
});

describe('refusals', () => {
  const ACTIONS = ['pause', 'resume', 'archive', 'restore', 'enter_maintenance', 'exit_maintenance'] as const;
  const ALLOWED = {
    active: ['pause', 'archive', 'enter_maintenance'],
    paused: ['resume', 'archive'],
    archived: ['restore'],
  } as const;

  it.each(['active', 'paused', 'archived'] as const)(
    'each action on a monitor that is %s is allowed or refused by the table',
    async (from) => {
      for (const action of ACTIONS) {
        let { body, etag } = await make();
        if (from !== 'active') {
          const moved = await act(body.monitorId, etag, { action: from === 'paused' ? 'pause' : 'archive' });
          etag = moved.etag;
        }
        const maintenance =
          action === 'enter_maintenance' ? { startsAt: iso(0), endsAt: iso(60) } : undefined;
        const answer = await act(body.monitorId, etag, { action, maintenance });
        const isAllowed = ALLOWED[from].some((allowed) => allowed === action);
        expect([from, action, answer.status]).toEqual([from, action, isAllowed ? 200 : 409]);
      }
    },
  );

  it('a lifecycle action needs the current ETag and an Idempotency-Key', async () => {
    const { body } = await make();
    const params = { monitorId: body.monitorId };
    const request = { params, body: { action: 'pause' } };
    expect((await api.manage.call('changeMonitorLifecycle', request)).status).toBe(428);
    expect((await act(body.monitorId, '"configuration-2"', { action: 'pause' })).status).toBe(412);
    const keyless = { ...request, ifMatch: '"configuration-1"', idempotencyKey: null };
    expect((await api.manage.call('changeMonitorLifecycle', keyless)).status).toBe(400);
    const reader = { ...request, ifMatch: '"configuration-1"' };
    expect((await api.read.call('changeMonitorLifecycle', reader)).status).toBe(403);
  });

  it('a replayed action gets its first answer after the version has changed', async () => {
    const { body, etag } = await make();
    const request = {
      params: { monitorId: body.monitorId },
      ifMatch: etag,
      body: { action: 'pause' },
      idempotencyKey: randomUUID(),
    };
    const first = await api.manage.expectSuccess('changeMonitorLifecycle', request);
    const second = await api.manage.expectSuccess('changeMonitorLifecycle', request);
    expect(second.body).toEqual(first.body);
    expect(second.etag).toBe('"configuration-2"');
  });
});
