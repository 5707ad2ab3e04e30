// Origins: which object of the cluster a monitor stands for (docs/contract/monitors.md, "Origin").
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

const HOUR_MS = 3_600_000;

function newOrigin() {
  return { kind: 'Monitor' as const, namespace: 'payments', name: `job-${randomUUID()}`, uid: randomUUID() };
}
const shown = ({ uid: _, ...origin }: ReturnType<typeof newOrigin>) => origin;
const again = (origin: ReturnType<typeof newOrigin>) => ({ ...origin, uid: randomUUID() });

const create = async (body: Record<string, unknown> = {}, client: ApiClient = api.operator) =>
  (await client.expectSuccess('createMonitor', { body: { name: 'Job', intervalSeconds: 3600, ...body } }))
    .body;
const read = async (monitorId: string) =>
  (await api.operator.expectSuccess('getMonitor', { params: { monitorId } })).body;
const setOrigin = (monitorId: string, origin: object | null) =>
  api.operator.expectSuccess('setMonitorOrigin', { params: { monitorId }, body: { origin } });
const report = async (body: { orphaned?: string[]; seen?: string[] }) =>
  (await api.operator.expectSuccess('reportMonitorOrigins', { body })).body;

async function changeLifecycle(monitorId: string, action: string) {
  const { etag } = await api.operator.expectSuccess('getMonitor', { params: { monitorId } });
  await api.operator.expectSuccess('changeMonitorLifecycle', {
    params: { monitorId },
    body: { action },
    ifMatch: etag,
  });
}

/** As if so much time had passed since the monitor was last written. */
async function letPass(monitorId: string, ms: number): Promise<void> {
  await api.pool.query(
    `update monitor_live l set anchor_ms = anchor_ms - $2, deadline_ms = deadline_ms - $2, wake_ms = wake_ms - $2
     from monitors m where m.project_id = l.project_id and m.monitor_key = l.monitor_key and m.monitor_id = $1`,
    [monitorId, ms],
  );
}

describe('a monitor that is created with an origin', () => {
  it('shows the origin without the UID, in reads, lists and the status feed', async () => {
    const origin = newOrigin();
    const { monitorId, ...made } = await create({ origin });
    expect(made.origin).toEqual(shown(origin));
    expect((await read(monitorId)).origin).toEqual(shown(origin));
    const list = await api.read.expectSuccess('listMonitors', {
      query: { origin: `Monitor/payments/${origin.name}` },
    });
    expect(list.body.items.map((item) => [item.monitorId, item.origin])).toEqual([
      [monitorId, shown(origin)],
    ]);
    const feed = await api.operator.expectSuccess('getStatusFeed');
    expect(feed.body.items.find((item) => item.monitorId === monitorId)?.origin).toEqual(shown(origin));
    const everything = JSON.stringify([made, list.body, feed.body]);
    expect(everything).not.toContain(origin.uid);
  });

  it('is refused with the id of the monitor that has the origin', async () => {
    const origin = newOrigin();
    const { monitorId } = await create({ origin });
    const { problem } = await api.operator.call('createMonitor', {
      body: { name: 'Job', origin: again(origin) },
    });
    expect(problem).toMatchObject({ status: 409, code: 'service.origin_taken', monitorId, retryable: false });
  });

  it('is refused by its own id when the creation is repeated under another key', async () => {
    const body = { monitorId: `mon_${randomUUID()}`, name: 'Job', origin: newOrigin() };
    await api.operator.expectSuccess('createMonitor', { body });
    const { problem } = await api.operator.call('createMonitor', { body });
    expect(problem).toMatchObject({ code: 'service.conflict', fieldErrors: [{ path: 'monitorId' }] });
  });
});

describe('setting the origin', () => {
  it('of an object that was made again starts the clock with a full interval plus grace', async () => {
    const origin = newOrigin();
    const { monitorId } = await create({ origin, awaitFirstBeat: false });
    await letPass(monitorId, HOUR_MS / 2);
    const before = await read(monitorId);
    const { body, etag } = await setOrigin(monitorId, again(origin));
    const moved =
      Date.parse(body.status.nextDeadlineAt ?? '') - Date.parse(before.status.nextDeadlineAt ?? '');
    expect(moved).toBeGreaterThanOrEqual(HOUR_MS / 2);
    expect(etag).toBe('"configuration-2"');
    expect(body.origin).toEqual(shown(origin));
    expect(body.publishUrl).toBe(before.publishUrl);
  });

  it('again to the same object changes nothing', async () => {
    const origin = newOrigin();
    const { monitorId } = await create({ origin, awaitFirstBeat: false });
    const before = await read(monitorId);
    const { body, etag } = await setOrigin(monitorId, origin);
    expect(etag).toBe('"configuration-1"');
    expect(body).toEqual(before);
  });

  it('takes it from the monitor that has it', async () => {
    const origin = newOrigin();
    const holder = await create({ origin });
    const { monitorId } = await create();
    await setOrigin(monitorId, again(origin));
    expect((await read(holder.monitorId)).origin).toBeUndefined();
    expect((await read(monitorId)).origin).toEqual(shown(origin));
  });

  it('to null releases the monitor', async () => {
    const { monitorId } = await create({ origin: newOrigin() });
    const { body } = await setOrigin(monitorId, null);
    expect(body.origin).toBeUndefined();
    expect((await setOrigin(monitorId, null)).etag).toBe('"configuration-2"');
  });
});

describe('a monitor whose object is gone', () => {
  it('is listed as orphaned until the object is seen again, and keeps its first time', async () => {
    const { monitorId } = await create({ origin: newOrigin() });
    expect(await report({ orphaned: [monitorId, 'nobody'] })).toEqual({ orphaned: 1, seen: 0 });
    const { orphanedAt } = (await read(monitorId)).origin ?? {};
    expect(Math.abs(Date.parse(orphanedAt ?? '') - Date.now())).toBeLessThan(60_000);
    expect(await report({ orphaned: [monitorId] })).toEqual({ orphaned: 0, seen: 0 });
    const orphans = async () =>
      (await api.read.expectSuccess('listMonitors', { query: { origin: 'orphaned' } })).body.items.map(
        (item) => [item.monitorId, item.origin?.orphanedAt],
      );
    expect(await orphans()).toEqual([[monitorId, orphanedAt]]);
    expect(await report({ seen: [monitorId] })).toEqual({ orphaned: 0, seen: 1 });
    expect(await orphans()).toEqual([]);
    expect((await read(monitorId)).configurationVersion).toBe(1);
  });

  it('is in no list of orphans while it is archived', async () => {
    const { monitorId } = await create({ origin: newOrigin() });
    await report({ orphaned: [monitorId] });
    await changeLifecycle(monitorId, 'archive');
    const { body } = await api.read.expectSuccess('listMonitors', { query: { origin: 'orphaned' } });
    expect(body.items.map((item) => item.monitorId)).not.toContain(monitorId);
  });
});
