// Events that wait for an earlier one of their incident: where a claim puts them, and that it passes very many of them
// with bounded work. It counts pages and not time: no machine is too slow for it.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/domain/id.ts';
import { claimDeliveries } from '../../src/store/deliveries/delivery-queue.ts';
import { findDueQueues } from '../../src/store/deliveries/due-queues.ts';
import { pagesOf } from '../support/pages.ts';
import { ok } from '../support/receiver.ts';
import type { SeedEndpoint } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, idsOf, openDeliveryFixture, queueOf } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(async () => {
  await fixture.endTest();
  await fixture.pool.query('truncate deliveries');
});
afterAll(() => fixture?.close());

const claim = (endpoint: SeedEndpoint, places = 32) => fixture.claim(endpoint, { places });

/** So many incidents whose first event is tried again in an hour, and whose second one has been due for ten minutes. */
async function seedWaiting(endpoint: SeedEndpoint, count: number): Promise<void> {
  await fixture.pool.query(
    `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
       state, webhook_id, body, next_attempt_at, created_at)
     select $1, 'dlv_' || s.n || '_' || v.sequence, $2, $1, 'inc_' || s.n, 'incident.opened', v.sequence, v.state,
       'msg_' || s.n || '_' || v.sequence, '{}', now() + v.minutes * interval '1 minute', now() - interval '10 minutes'
     from generate_series(1, $3) s (n), (values (1, 'failing', 60), (2, 'pending', -10)) v (sequence, state, minutes)`,
    [fixture.project.projectId, endpoint.endpointId, count],
  );
}

const isDue = async () => (await findDueQueues(fixture.pool, { limit: 10 })).due.length > 0;

describe('very many events that wait', () => {
  it('a claim reads no more pages when 20,000 events wait than when 4,000 do, and one that is behind them is sent', async () => {
    const { receiver, endpoint } = await fixture.receive(ok);
    const wanted = [{ ...queueOf(fixture.project, endpoint), places: 10 }];
    const pages: number[] = [];
    for (const count of [4_000, 20_000]) {
      await fixture.pool.query('truncate deliveries');
      await seedWaiting(endpoint, count);
      await fixture.pool.query('vacuum analyze deliveries');
      pages.push(await pagesOf(fixture.pool, (db) => claimDeliveries(db, randomUUID(), wanted)));
    }
    const [few = Number.NaN, many = Number.NaN] = pages;
    expect(many).toBeLessThan(few * 2);
    const row = await fixture.enqueueOne(endpoint);
    fixture.dispatch();
    await waitFor(() => receiver.requests.length > 0, { what: 'the event behind is there' });
    expect(idsOf(receiver)).toEqual([row.webhookId]);
  });

  it('an endpoint at which all events wait for later attempts is due no more after a few claims', async () => {
    const { endpoint } = await fixture.receive(ok);
    await seedWaiting(endpoint, 3_000);
    for (const mayBeMore of [true, true, false]) {
      expect(await isDue()).toBe(true);
      const { passed } = await claim(endpoint);
      expect(passed).toMatchObject(mayBeMore ? [queueOf(fixture.project, endpoint)] : []);
    }
    expect(await isDue()).toBe(false);
    expect(await claim(endpoint)).toEqual({ deliveries: [], passed: [] });
  });
});

describe('an event that waits', () => {
  /** An event and the two behind it, of which the last is due first. */
  async function seedIncident(first: SeedEndpoint, later: SeedEndpoint) {
    const incidentId = newId('inc');
    const before = await fixture.enqueueOne(first, { incidentId });
    const second = await fixture.enqueueOne(later, { incidentId, sequence: 2 });
    const third = await fixture.enqueueOne(later, { incidentId, sequence: 3 });
    const tryAgainIn = (interval: string) =>
      fixture.pool.query(
        `update deliveries set state = 'failing', attempt_count = 1, lease_owner = null, lease_until = null,
           next_attempt_at = now() + $2::interval where delivery_id = $1`,
        [before.deliveryId, interval],
      );
    const nextOf = async (row: { deliveryId: string }) =>
      (await fixture.rowOf(row)).next_attempt_at.getTime();
    return { before, second, third, tryAgainIn, nextOf };
  }

  it('an event goes behind the one for which it waits, and the later ones behind it in their order', async () => {
    const { endpoint } = await fixture.receive(ok);
    const { before, second, third, tryAgainIn, nextOf } = await seedIncident(endpoint, endpoint);
    await tryAgainIn('1 hour');
    expect((await claim(endpoint)).deliveries).toEqual([]);
    expect(await isDue()).toBe(false);
    expect(await nextOf(second)).toBe(await nextOf(before));
    await tryAgainIn('-1 second');
    await fixture.makeDue(second);
    await fixture.makeDue(third);
    for (const row of [before, second, third]) {
      const { deliveries } = await claim(endpoint);
      expect(deliveries.map(({ deliveryId }) => deliveryId)).toEqual([row.deliveryId]);
      await fixture.cancel(row);
    }
  });

  it('an event stays due while an attempt to the one before is under way', async () => {
    const { endpoint } = await fixture.receive(ok);
    const { before, second, nextOf } = await seedIncident(endpoint, endpoint);
    const dueMs = await nextOf(second);
    expect((await claim(endpoint, 1)).deliveries).toHaveLength(1);
    expect(await claim(endpoint)).toEqual({ deliveries: [], passed: [] });
    expect(await nextOf(second)).toBe(dueMs);
    await fixture.cancel(before);
    expect((await claim(endpoint)).deliveries).toHaveLength(1);
  });

  it('an event that waits for one at another endpoint, which may be canceled, is looked at again soon, and less often the longer it waits', async () => {
    const one = await fixture.receive(ok);
    const { endpoint } = await fixture.receive(ok);
    const { second, tryAgainIn, nextOf } = await seedIncident(one.endpoint, endpoint);
    const waitAfter = async (minutes: number) => {
      await fixture.makeDue(second);
      await fixture.pool.query(
        "update deliveries set created_at = now() - $2 * interval '1 minute' where delivery_id = $1",
        [second.deliveryId, minutes],
      );
      const beforeMs = await fixture.nowMs();
      await claim(endpoint);
      const afterMs = await fixture.nowMs();
      const nextMs = await nextOf(second);
      return { atLeast: nextMs - afterMs, atMost: nextMs - beforeMs };
    };
    await tryAgainIn('12 hours');
    const young = await waitAfter(0);
    expect(young.atLeast).toBeLessThanOrEqual(251);
    expect(young.atMost).toBeGreaterThanOrEqual(249);
    const old = await waitAfter(20);
    expect(old.atLeast).toBeLessThanOrEqual(60_002);
    expect(old.atMost).toBeGreaterThanOrEqual(59_998);
    await tryAgainIn('10 seconds');
    expect((await waitAfter(20)).atLeast).toBeLessThanOrEqual(10_000);
  });
});

it('a claim returns deliveries in the order of what was wanted, however long they are due', async () => {
  const { endpoints } = await fixture.receiveAt(3, ok);
  const rows = [];
  for (const endpoint of endpoints) rows.push(...(await fixture.enqueue(endpoint, 2)));
  const wanted = endpoints
    .toReversed()
    .map((endpoint) => ({ ...queueOf(fixture.project, endpoint), places: 2 }));
  const { deliveries } = await claimDeliveries(fixture.pool, randomUUID(), wanted);
  const [a, b, c] = endpoints.map(({ endpointId }) => endpointId);
  expect(deliveries.map(({ endpoint }) => endpoint.endpointId)).toEqual([c, c, b, b, a, a]);
  expect(deliveries).toHaveLength(rows.length);
});
