// Alerts through the relay as the dispatcher sends them: states, retries and topics.

import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { buildTestEvent } from '../../src/delivery/formats/event.ts';
import { newTopic, topicUrlOf } from '../../src/delivery/relay/relay.ts';
import { newId, newUuid } from '../../src/domain/id.ts';
import { insertEndpoint } from '../../src/store/callbacks/callback-endpoints.ts';
import {
  insertRelayTopic,
  relayTopicPlace,
  replaceRelayTopic,
} from '../../src/store/callbacks/relay-topics.ts';
import type { OutboxRow } from '../../src/store/deliveries/deliveries.ts';
import { createSweeperMetrics } from '../../src/sweeper/sweeper-metrics.ts';
import { openNtfy } from '../support/ntfy.ts';
import { startReceiver, status } from '../support/receiver.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture.close());

const EVENT = buildTestEvent({ atMs: 0, organizationId: 'o', projectId: 'p', endpointId: 'cb_1' });

/** An endpoint for everyone, with its topic. */
async function seedGroup() {
  const { pool, secrets, project } = fixture;
  const { organizationId, projectId } = project;
  const [topicId, topic, endpointId] = [newUuid(), newTopic(), newId('cb')];
  const seal = (text: string) => ({ topicId, topicBox: secrets.seal(text, relayTopicPlace(topicId)) });
  const owner = { organizationId, notifierId: `n-${topicId}` };
  await insertRelayTopic(pool, owner, seal(topic), Date.now());
  const relayGroup = { notifierId: owner.notifierId, contractVersion: 'ntfy-1' };
  const endpoint = { projectId, endpointId, alias: endpointId, kind: 'relay_group', relayGroup } as const;
  await insertEndpoint(pool, { ...endpoint, relayTopicId: topicId, createdMs: Date.now() });
  return {
    endpoint: { endpointId, secret: '' },
    topic,
    replace: (text: string) => replaceRelayTopic(pool, seal(text), Date.now()),
  };
}

const HOUR_MS = 3_600_000;

/** How long the delivery waits after a 429, ms. It is as if no attempt had been made. */
async function postponed(row: OutboxRow, headers: Record<string, string> = {}): Promise<number> {
  const receiver = await startReceiver((response) => response.writeHead(429, headers).end());
  const beforeMs = await fixture.nowMs();
  const relay = { url: new URL(receiver.url).origin, notifiers: ['ntfy'] };
  const dispatcher = fixture.dispatch({ relay });
  const isPostponed = async () => (await fixture.rowOf(row)).next_attempt_at.getTime() > beforeMs;
  await waitFor(isPostponed, { what: 'the delivery is postponed' });
  await dispatcher.stop();
  await receiver.close();
  expect(receiver.requests).toHaveLength(1);
  const { state, attempt_count: attempts, next_attempt_at: next } = await fixture.rowOf(row);
  expect({ state, attempts }).toEqual({ state: 'pending', attempts: 0 });
  expect(await fixture.attemptsOf(row)).toEqual([]);
  return next.getTime() - beforeMs;
}

describe('a delivery to the relay', () => {
  it('what is due goes to the topic that the endpoint has at that moment', async () => {
    const ntfy = await openNtfy();
    fixture.atEnd(() => ntfy.close());
    const { endpoint, topic, replace } = await seedGroup();
    const first = await fixture.enqueueOne(endpoint, { body: EVENT });
    fixture.dispatch({ relay: { ...ntfy, notifiers: ['ntfy'] } });
    await fixture.stateIs(first, 'delivered');
    const next = newTopic();
    await replace(next);
    const second = await fixture.enqueueOne(endpoint, { body: EVENT });
    await fixture.stateIs(second, 'delivered');
    for (const one of [topic, next]) expect(await ntfy.messagesAt(topicUrlOf(ntfy, one))).toHaveLength(1);
    expect(await fixture.attemptsOf(first)).toMatchObject([{ status_code: 200, error: null }]);
  });

  it('a refusal of the relay leaves the delivery failing with its status, and the endpoint active', async () => {
    const receiver = await startReceiver(status(410));
    fixture.atEnd(() => receiver.close());
    const { endpoint } = await seedGroup();
    const row = await fixture.enqueueOne(endpoint, { body: EVENT });
    fixture.dispatch({ relay: { url: new URL(receiver.url).origin, notifiers: ['ntfy'] } });
    await fixture.stateIs(row, 'failing');
    expect(await fixture.attemptsOf(row)).toMatchObject([{ status_code: 410 }]);
    expect(await fixture.endpointRow(endpoint)).toMatchObject({ lifecycle: 'active' });
  });

  it('a relay that takes no more for now costs no attempt: the delivery waits as long as it asks for', async () => {
    const { endpoint } = await seedGroup();
    const row = await fixture.enqueueOne(endpoint, { body: EVENT });
    const waitMs = await postponed(row, { 'retry-after': '600' });
    expect(waitMs).toBeGreaterThanOrEqual(600_000);
    expect(waitMs).toBeLessThan(700_000);
  });

  it('the longer a delivery could not be published, the rarer it is tried', async () => {
    const waits: number[] = [];
    for (const hours of [0, 1, 16]) {
      const { endpoint } = await seedGroup();
      const createdMs = (await fixture.nowMs()) - hours * HOUR_MS;
      waits.push(await postponed(await fixture.enqueueOne(endpoint, { body: EVENT, createdMs })));
    }
    const [fresh = 0, hourOld = 0, old = 0] = waits;
    expect(fresh).toBeLessThan(60_000);
    expect(hourOld / 60_000).toBeGreaterThanOrEqual(6);
    expect(hourOld / 60_000).toBeLessThan(8);
    expect(old / HOUR_MS).toBeGreaterThanOrEqual(1);
    expect(old / HOUR_MS).toBeLessThan(1.2);
  });

  it('a delivery that is older than any is tried, and a test, end by the next refusal of the relay', async () => {
    const receiver = await startReceiver(status(429));
    fixture.atEnd(() => receiver.close());
    const { endpoint } = await seedGroup();
    const createdMs = (await fixture.nowMs()) - 18 * HOUR_MS;
    const old = await fixture.enqueueOne(endpoint, { body: EVENT, createdMs });
    const { endpoint: other } = await seedGroup();
    const test = await fixture.enqueueOne(other, { body: EVENT, event: 'callback.test' });
    fixture.dispatch({ relay: { url: new URL(receiver.url).origin, notifiers: ['ntfy'] } });
    await fixture.stateIs(old, 'exhausted');
    await fixture.stateIs(test, 'exhausted');
    for (const row of [old, test])
      expect(await fixture.attemptsOf(row)).toMatchObject([{ status_code: 429 }]);
  });

  it('how late the relay takes an alert says nothing of the time that an alert takes here', async () => {
    let refusals = 1;
    const ntfy = await startReceiver((response) => {
      if (refusals > 0) response.writeHead(429).end();
      else response.end('{"id":"a","event":"message"}');
      refusals -= 1;
    });
    fixture.atEnd(() => ntfy.close());
    const registry = new Registry();
    const { endpoint } = await seedGroup();
    const late = await fixture.enqueueOne(endpoint, { body: EVENT });
    const { endpoint: webhook } = await fixture.receive();
    const relay = { url: new URL(ntfy.url).origin, notifiers: ['ntfy'] };
    fixture.dispatch({ relay, metrics: createSweeperMetrics(registry) });
    await waitFor(() => refusals === 0, { what: 'the relay refuses' });
    // Hours later.
    await waitFor(
      async () => {
        await fixture.pool.query(
          "update deliveries set next_attempt_at = created_at where delivery_id = $1 and state = 'pending' and lease_owner is null",
          [late.deliveryId],
        );
        return (await fixture.rowOf(late)).state === 'delivered';
      },
      { what: 'the relay takes it' },
    );
    await fixture.stateIs(await fixture.enqueueOne(webhook), 'delivered');
    const metrics = () => registry.metrics();
    const isCounted = async () => (await metrics()).includes('deliveries_total{outcome="delivered"} 2');
    await waitFor(isCounted, { what: 'both are counted' });
    expect(await metrics()).toContain('beatkeeper_delivery_latency_seconds_count 1');
  });

  it('where the installation has no relay any more, the delivery ends as one to any dead receiver', async () => {
    const { endpoint } = await seedGroup();
    const row = await fixture.enqueueOne(endpoint, { body: EVENT });
    fixture.dispatch();
    await fixture.stateIs(row, 'failing');
    expect(await fixture.attemptsOf(row)).toMatchObject([
      { status_code: null, error: 'destination_rejected' },
    ]);
  });
});
