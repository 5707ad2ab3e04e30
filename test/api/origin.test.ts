// Origins: which object of the cluster a monitor stands for (docs/contract/monitors.md, "Origin").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { madeAgain, newOrigin, originCalls, shown, type TestOrigin } from './origin-fixture.ts';

let api: ApiFixture;
let calls: ReturnType<typeof originCalls>;
beforeAll(async () => {
  api = await openApiFixture();
  calls = originCalls(api);
});
afterAll(async () => {
  await api?.close();
});

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

const bare = ({ ownedFields: _, ...origin }: TestOrigin & { ownedFields?: string[] }) => shown(origin);
const deadlineOf = ({ status }: { status: { nextDeadlineAt?: string } }) =>
  Date.parse(status.nextDeadlineAt ?? '');
const ping = async (publishUrl: string | undefined, kind = '') =>
  expect((await fetch(`${api.url}${new URL(publishUrl ?? '').pathname}${kind}`)).status).toBe(200);

describe('a monitor that is created with an origin', () => {
  it('shows it in reads, lists and the status feed, and UID and owned fields to nobody but the operator', async () => {
    const origin = { ...newOrigin(), ownedFields: ['labels.team', 'name'] };
    const { monitorId, ...made } = await calls.create({ origin });
    expect(made.origin).toEqual(origin);
    expect((await calls.read(monitorId)).origin).toEqual(origin);
    const reads = [api.manage, api.read, api.owner, api.member, api.viewer].map(async (client) => {
      const { body } = await client.expectSuccess('getMonitor', { params: { monitorId } });
      expect(body.origin).toEqual(bare(origin));
    });
    await Promise.all(reads);
    const query = { origin: `Monitor/payments/${origin.name}` };
    const list = await api.read.expectSuccess('listMonitors', { query });
    expect(list.body.items.map((item) => [item.monitorId, item.origin])).toEqual([[monitorId, bare(origin)]]);
    const feed = await api.operator.expectSuccess('getStatusFeed');
    expect(feed.body.items.find((item) => item.monitorId === monitorId)?.origin).toEqual(bare(origin));
    expect(JSON.stringify([list.body, feed.body])).not.toContain(origin.uid);
  });

  it('is refused with the id of the monitor that has the origin', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin });
    const body = { name: 'Job', origin: madeAgain(origin) };
    const { problem } = await api.operator.call('createMonitor', { body });
    expect(problem).toMatchObject({ status: 409, code: 'service.origin_taken', monitorId, retryable: false });
    expect(problem).not.toHaveProperty('endpointId');
  });

  it('is refused so while the holder is archived and can be restored', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin });
    await calls.changeLifecycle(monitorId, 'archive');
    const body = { name: 'Job', origin: madeAgain(origin) };
    const { problem } = await api.operator.call('createMonitor', { body });
    expect(problem).toMatchObject({ code: 'service.origin_taken', monitorId });
  });

  it('gets the origin of an archived monitor that cannot be restored any more', async () => {
    const origin = newOrigin();
    const old = await calls.create({ origin });
    await calls.changeLifecycle(old.monitorId, 'archive');
    await calls.letRestoreWindowPass(old.monitorId);
    const { monitorId } = await calls.create({ origin: madeAgain(origin) });
    expect((await calls.read(monitorId)).origin).toMatchObject(shown(origin));
    expect((await calls.read(old.monitorId)).origin).toBeUndefined();
  });

  it('gets the origin of a monitor that was deleted', async () => {
    const origin = newOrigin();
    const old = await calls.create({ origin });
    await calls.deleteMonitor(old.monitorId);
    expect((await calls.create({ origin: madeAgain(origin) })).origin).toMatchObject(shown(origin));
  });

  it('is refused by its id, and not by its own origin, when the creation is repeated under another key', async () => {
    const body = { monitorId: `mon_${randomUUID()}`, name: 'Job', origin: newOrigin() };
    await api.operator.expectSuccess('createMonitor', { body });
    const { problem } = await api.operator.call('createMonitor', { body });
    expect(problem).toMatchObject({ code: 'service.conflict', fieldErrors: [{ path: 'monitorId' }] });
  });

  it('has nothing to do with the same origin in another project', async () => {
    const origin = newOrigin();
    await calls.create({ origin });
    const { body: project } = await api.owner.expectSuccess('createProject', {
      body: { name: randomUUID() },
    });
    const elsewhere = api.operator.as(api.tokens.operator, project.projectId);
    const { monitorId } = await calls.create({ origin }, elsewhere);
    const list = await elsewhere.expectSuccess('listMonitors', {
      query: { origin: `Monitor/payments/${origin.name}` },
    });
    expect(list.body.items.map((item) => item.monitorId)).toEqual([monitorId]);
  });
});

describe('setting the origin to an object that was made again', () => {
  it('starts the clock with a full interval plus grace, and keeps address and history', async () => {
    const origin = newOrigin();
    const { monitorId, publishUrl } = await calls.create({ origin, graceSeconds: 120 });
    await ping(publishUrl);
    await calls.letPass(monitorId, 61 * MINUTE_MS);
    const before = await calls.read(monitorId);
    expect(before.status.health).toBe('late');
    const { body, etag } = await calls.setOrigin(monitorId, madeAgain(origin));
    expect(etag).toBe('"configuration-2"');
    expect(body).toMatchObject({ publishUrl, origin: shown(origin), status: { health: 'up' } });
    expect(body.status.lastBeatAt).toBe(before.status.lastBeatAt);
    expect(deadlineOf(body)).toBe(Date.parse(body.updatedAt) + HOUR_MS + 2 * MINUTE_MS);
  });

  it('gives an open run its full time again', async () => {
    const origin = newOrigin();
    const { monitorId, publishUrl } = await calls.create({ origin, maxRuntimeSeconds: 600 });
    await ping(publishUrl, '/start');
    const { body } = await calls.setOrigin(monitorId, madeAgain(origin));
    const { rows } = await api.pool.query(
      `select open_runs from monitor_live join monitors using (project_id, monitor_key) where monitor_id = $1`,
      [monitorId],
    );
    expect(rows[0].open_runs).toMatchObject([{ dueMs: Date.parse(body.updatedAt) + 600_000 }]);
  });

  it('starts no clock of a monitor that waits for its first beat, or is paused', async () => {
    const waiting = newOrigin();
    const { monitorId } = await calls.create({ origin: waiting });
    const { body } = await calls.setOrigin(monitorId, madeAgain(waiting));
    expect(body.status).toMatchObject({ health: 'waiting' });
    expect(body.status.nextDeadlineAt).toBeUndefined();

    const paused = newOrigin();
    const other = await calls.create({ origin: paused, awaitFirstBeat: false });
    await calls.changeLifecycle(other.monitorId, 'pause');
    const still = await calls.setOrigin(other.monitorId, madeAgain(paused));
    expect(still.body.lifecycle).toBe('paused');
    expect(still.body.status.nextDeadlineAt).toBeUndefined();
  });

  it('leaves an open incident as it is', async () => {
    const origin = newOrigin();
    const { monitorId, publishUrl } = await calls.create({ origin });
    await ping(publishUrl, '/fail');
    const { body } = await calls.setOrigin(monitorId, madeAgain(origin));
    expect(body.status.openIncidents).toMatchObject([{ kind: 'reported_failure', state: 'open' }]);
    expect(deadlineOf(body)).toBeGreaterThan(Date.now());
  });

  it('is a change of the configuration, made by the operator', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin });
    await calls.setOrigin(monitorId, madeAgain(origin));
    const { body } = await api.read.expectSuccess('listMonitorChanges', { params: { monitorId } });
    expect(body.items).toMatchObject([
      { kind: 'configuration', configurationVersion: 2, actor: { kind: 'operator' } },
      { kind: 'configuration', configurationVersion: 1 },
    ]);
  });
});

describe('setting the origin', () => {
  it('again to the same object changes nothing', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin, awaitFirstBeat: false });
    const before = await calls.read(monitorId);
    const { body, etag } = await calls.setOrigin(monitorId, origin);
    expect(etag).toBe('"configuration-1"');
    expect(body).toEqual({ ...before, latestObservation: undefined });
    const changes = await api.read.expectSuccess('listMonitorChanges', { params: { monitorId } });
    expect(changes.body.items).toHaveLength(1);
  });

  it('of a monitor that had none keeps its clock', async () => {
    const { monitorId } = await calls.create({ awaitFirstBeat: false });
    const before = await calls.read(monitorId);
    const { body } = await calls.setOrigin(monitorId, newOrigin());
    expect(deadlineOf(body)).toBe(deadlineOf(before));
  });

  it('takes it from the monitor that has it, which the status feed shows of both', async () => {
    const origin = newOrigin();
    const holder = await calls.create({ origin });
    const { monitorId } = await calls.create();
    const { body: seen } = await api.operator.expectSuccess('getStatusFeed');
    await calls.setOrigin(monitorId, madeAgain(origin));
    const { body } = await api.operator.expectSuccess('getStatusFeed', {
      query: { cursor: seen.nextCursor },
    });
    const origins = new Map(body.items.map((item) => [item.monitorId, item.origin]));
    expect(origins.get(monitorId)).toEqual(shown(origin));
    expect([origins.has(holder.monitorId), origins.get(holder.monitorId)]).toEqual([true, undefined]);
    expect((await calls.read(holder.monitorId)).configurationVersion).toBe(2);
  });

  it('of an archived monitor leaves it archived, and the restore starts its clock', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin, awaitFirstBeat: false });
    await calls.changeLifecycle(monitorId, 'archive');
    const { body } = await calls.setOrigin(monitorId, madeAgain(origin));
    expect([body.lifecycle, body.status.nextDeadlineAt]).toEqual(['archived', undefined]);
    const restored = await calls.changeLifecycle(monitorId, 'restore');
    expect(restored.origin).toMatchObject(shown(origin));
    expect(deadlineOf(restored)).toBeGreaterThan(Date.now());
  });

  it('to null releases the monitor once, and its origin is free', async () => {
    const origin = newOrigin();
    const { monitorId } = await calls.create({ origin });
    expect((await calls.setOrigin(monitorId, null)).body.origin).toBeUndefined();
    expect((await calls.setOrigin(monitorId, null)).etag).toBe('"configuration-2"');
    expect((await calls.create({ origin })).origin).toEqual(origin);
  });
});
