// Deliveries on a Citus cluster alone (docs/adr/0012): their outcomes are written shard by shard.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { updateLastDeliveries } from '../../src/store/callbacks/callback-endpoints.ts';
import type { OutboxRow } from '../../src/store/deliveries/deliveries.ts';
import {
  findTestDelivery,
  finishTestDelivery,
  insertTestDelivery,
  isTestUnderWay,
} from '../../src/store/deliveries/test-deliveries.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { ok, type Receiver } from '../support/receiver.ts';
import { seedNeighbours, splitShard } from '../support/split-shard.ts';
import { waitFor } from '../support/wait-for.ts';
import { DeliveryFixture, holding, openDeliveryFixture } from './delivery-fixture.ts';

describe.runIf(isDistributed())('deliveries on Citus', () => {
  let fixture: DeliveryFixture;
  beforeAll(async () => {
    fixture = await openDeliveryFixture();
  });
  afterEach(() => fixture.endTest());
  afterAll(() => fixture?.close());

  it('the outcomes of two projects whose shard is split during their attempts are written', async () => {
    const projects = (await seedNeighbours(fixture.pool)).map(
      (project) => new DeliveryFixture({ ...fixture, project }),
    );
    const held = holding();
    const rows: { row: OutboxRow; receiver: Receiver }[] = [];
    for (const project of projects) {
      const { endpoint, receiver } = await project.receive(held.answer);
      fixture.atEnd(() => project.endTest());
      rows.push({ row: await project.enqueueOne(endpoint), receiver });
    }
    fixture.dispatch();
    const areUnderWay = () => rows.every(({ receiver }) => receiver.requests.length === 1);
    await waitFor(areUnderWay, { what: 'both attempts are under way' });
    const [first] = projects;
    if (!first) throw new Error('There is no project.');
    await splitShard(fixture.pool, first.project);
    held.release();
    for (const { row } of rows) await fixture.stateIs(row, 'delivered');
    for (const { receiver } of rows) expect(receiver.requests).toHaveLength(1);
  });

  it('an endpoint whose row is locked holds up no outcome, and shows its last delivery when it is free', async () => {
    const { endpoint } = await fixture.receive(ok);
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('select from callback_endpoints where endpoint_id = $1 for update', [
      endpoint.endpointId,
    ]);
    fixture.dispatch();
    for (let round = 1; round <= 3; round += 1) {
      await fixture.stateIs(await fixture.enqueueOne(endpoint), 'delivered');
    }
    expect((await fixture.endpointRow(endpoint)).last_delivery).toBeNull();
    await client.query('commit');
    client.release();
    await fixture.lastDeliveryIs(endpoint, 'delivered');
  });

  it('a test delivery is written once, found while it is under way, and ends with its only attempt', async () => {
    const { pool, project } = fixture;
    const { projectId } = project;
    const { endpoint } = await fixture.receive();
    const ref = { projectId, endpointId: endpoint.endpointId };
    const createdMs = await fixture.nowMs();
    const message = { webhookId: newId('msg'), body: '{}', createdMs, takeoverMs: createdMs + 60_000 };
    const delivery = { ...ref, ...message, deliveryId: newId('dlv', createdMs) };
    const next = { ...delivery, webhookId: newId('msg'), deliveryId: newId('dlv', createdMs) };
    await inTransaction(pool, async (tx) => {
      const same = { projectId, webhookIds: [message.webhookId] };
      const find = (sinceMs: number) => findTestDelivery(tx, { ...same, sinceMs });
      expect(await find(createdMs - 1)).toBeUndefined();
      await insertTestDelivery(tx, delivery);
      expect(await find(createdMs - 1)).toBe(delivery.deliveryId);
      expect(await find(createdMs)).toBeUndefined();
      expect(await isTestUnderWay(tx, delivery)).toBe(false);
      expect(await isTestUnderWay(tx, next)).toBe(true);
    });
    const [atMs, endedMs] = [createdMs + 10, createdMs + 20];
    await inTransaction(pool, async (tx) => {
      await updateLastDeliveries(tx, [
        { ...ref, last: { state: 'delivered', atMs: endedMs, statusCode: 204 } },
      ]);
      const { deliveryId } = delivery;
      const attempt = {
        projectId,
        deliveryId,
        delivered: true,
        atMs,
        endedMs,
        statusCode: 204,
        latencyMs: 10,
      };
      await finishTestDelivery(tx, attempt);
    });
    expect(await fixture.rowOf(delivery)).toMatchObject({ state: 'delivered', first_status_code: 204 });
    expect(await fixture.lastDeliveryIs(endpoint, 'delivered')).toMatchObject({ statusCode: 204 });
  });
});
