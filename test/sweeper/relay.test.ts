// Alerts through the relay as the dispatcher sends them: states, retries and topics.
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
import { openNtfy } from '../support/ntfy.ts';
import { startReceiver, status } from '../support/receiver.ts';
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

  it('a relay that asks for time gets it: Retry-After is longer than the first wait', async () => {
    const receiver = await startReceiver((response) =>
      response.writeHead(429, { 'retry-after': '600' }).end(),
    );
    fixture.atEnd(() => receiver.close());
    const { endpoint } = await seedGroup();
    const row = await fixture.enqueueOne(endpoint, { body: EVENT });
    const beforeMs = await fixture.nowMs();
    fixture.dispatch({ relay: { url: new URL(receiver.url).origin, notifiers: ['ntfy'] } });
    await fixture.stateIs(row, 'failing');
    const { next_attempt_at: next } = await fixture.rowOf(row);
    expect(next.getTime()).toBeGreaterThanOrEqual(beforeMs + 600_000);
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
