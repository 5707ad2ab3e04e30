// For how long the result of a poll serves a dispatcher, on a database that is slow at polls and at nothing else.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { insertDeliveries } from '../../src/store/deliveries/deliveries.ts';
import type { Dispatcher } from '../../src/sweeper/deliveries/dispatcher.ts';
import { FULL_EVERY_MS } from '../../src/sweeper/deliveries/due-queues.ts';
import { ok } from '../support/receiver.ts';
import { seedEndpoint } from '../support/seed.ts';
import { makeDelivery } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

interface Poll {
  isFull: boolean;
  startedAt: number;
  endedAt: number;
  /** Endpoints that claims have asked for since. */
  asked: string[];
}

interface SlowPolls {
  duringPoll?: () => void;
  onlyFull?: boolean;
}

let fixture: DeliveryFixture;
let polls: Poll[];
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
beforeEach(() => {
  polls = [];
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

/** Each poll takes `pollMs` longer, or each full one; `duringPoll` is called when it has read the outbox. */
function slowPolls(pollMs: number, { duringPoll, onlyFull = false }: SlowPolls = {}): void {
  const { pool } = fixture;
  const query = pool.query.bind(pool);
  vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
    const { name, values = [] } = given[0] as { name?: string; values?: unknown[] };
    if (name === 'claim-deliveries') polls.at(-1)?.asked.push(...(values[2] as string[]));
    const isFull = name === 'find-due-queues';
    if (!isFull && name !== 'find-newly-due-queues') return await query(...given);
    const startedAt = performance.now();
    const answer = await query(...given);
    duringPoll?.();
    if (isFull || !onlyFull) await new Promise((resolve) => setTimeout(resolve, pollMs));
    polls.push({ isFull, startedAt, endedAt: performance.now(), asked: [] });
    return answer;
  });
}

/** From the end of each poll to the start of the next one, ms. */
const gaps = () => polls.slice(1).map(({ startedAt }, index) => startedAt - (polls[index]?.endedAt ?? 0));

describe('a slow poll', () => {
  it('a slow poll is followed by the next one within a moment, for deliveries that other processes add', async () => {
    slowPolls(1_000);
    fixture.dispatch({ pollMs: 1 });
    await waitFor(() => gaps().some((gapMs) => gapMs < 2_000), { what: 'a poll soon after another' });
  });

  it('a slow poll is followed by the next one at once when a delivery was added in this process meanwhile', async () => {
    let dispatcher: Dispatcher | undefined;
    slowPolls(200, { duringPoll: () => dispatcher?.wake() });
    dispatcher = fixture.dispatch({ pollMs: 1 });
    await waitFor(() => gaps().some((gapMs) => gapMs < 125), { what: 'a poll just after another' });
  });

  it('an endpoint at which nothing may go out is asked once, and not again while the result of the poll serves', async () => {
    const endpoints = 1_600;
    await fixture.enqueueElsewhere(endpoints, 3_600_000);
    await fixture.pool.query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
         webhook_id, body, next_attempt_at, created_at)
       select project_id, delivery_id || '_next', endpoint_id, endpoint_project_id, incident_id, 'incident.resolved', 2,
         webhook_id || '_next', '{}', now(), now()
       from deliveries where state = 'failing'`,
    );
    slowPolls(100);
    fixture.dispatch({ pollMs: 1 });
    await waitFor(() => polls.length > 8, { what: 'some polls' });
    expect(polls.some(({ asked }) => asked.length > 0)).toBe(true);
    for (const { asked } of polls) expect(asked).toHaveLength(new Set(asked).size);
  });
});

describe('short polls, while full ones are expensive', () => {
  /** A dispatcher that has begun with short polls. */
  async function dispatchWithShortPolls(): Promise<Dispatcher> {
    slowPolls(1_000, { onlyFull: true });
    const dispatcher = fixture.dispatch({ pollMs: 1 });
    await waitFor(() => polls.some(({ isFull }) => !isFull), { what: 'a short poll' });
    return dispatcher;
  }
  /** Full polls that began since, but for those that come every two seconds, however long the machine took. */
  const fullSince = (startedAt: number) =>
    polls.filter((poll) => poll.isFull && poll.startedAt > startedAt).length -
    (performance.now() - startedAt) / FULL_EVERY_MS;

  it('a delivery that is added in this process or in another one is sent after a short poll', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const dispatcher = await dispatchWithShortPolls();
    for (const isHere of [true, false, true, false]) {
      const last = () => polls.at(-1)?.isFull === false;
      await waitFor(last, { what: 'a short poll was the last one', intervalMs: 1 });
      const before = performance.now();
      const row = await fixture.enqueueOne(endpoint);
      if (isHere) dispatcher.wake();
      await fixture.stateIs(row, 'delivered');
      // Another poll may have been full just now, and the short one after it finds the delivery.
      expect(fullSince(before)).toBeLessThan(2);
    }
    expect(receiver.requests).toHaveLength(4);
  });

  it('a delivery that was committed an hour late is sent after the next full poll', async () => {
    const { endpoint } = await fixture.receive(ok);
    await dispatchWithShortPolls();
    const before = performance.now();
    const nowMs = await fixture.nowMs();
    const row = makeDelivery(fixture.project, endpoint);
    await insertDeliveries(fixture.pool, [row], nowMs - 3_600_000);
    await fixture.stateIs(row, 'delivered');
    expect(fullSince(before)).toBeLessThan(4);
  });

  it('a delivery of a dispatcher that died is sent after a full poll when its lease has ended', async () => {
    const { endpoint } = await fixture.receive(ok);
    const row = await fixture.enqueueOne(endpoint);
    await fixture.claim(endpoint);
    await fixture.pool.query(
      `update deliveries set next_attempt_at = now() - interval '40 seconds' where delivery_id = $1`,
      [row.deliveryId],
    );
    await dispatchWithShortPolls();
    expect((await fixture.rowOf(row)).attempt_count).toBe(0);
    const before = performance.now();
    await fixture.pool.query('update deliveries set lease_until = now() where delivery_id = $1', [
      row.deliveryId,
    ]);
    await fixture.stateIs(row, 'delivered');
    expect(fullSince(before)).toBeLessThan(4);
  });

  it('an event is sent after a full poll when another process has ended the one before it', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const incidentId = newId('inc');
    const farAway = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
    const first = await fixture.enqueueOne(farAway, { incidentId });
    await fixture.pool.query(
      `update deliveries set state = 'failing', next_attempt_at = now() + interval '1 hour' where delivery_id = $1`,
      [first.deliveryId],
    );
    const nowMs = await fixture.nowMs();
    const later = makeDelivery(fixture.project, endpoint, { incidentId, sequence: 2 });
    await insertDeliveries(fixture.pool, [later], nowMs - 60_000);
    await dispatchWithShortPolls();
    expect(receiver.requests).toEqual([]);
    const before = performance.now();
    await fixture.cancel(first);
    await fixture.stateIs(later, 'delivered');
    expect(fullSince(before)).toBeLessThan(4);
  });
});
