// Cancellations: in bounded steps, in turns, by any number of sweepers, and what a 410 costs the outcomes of others.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { disableEndpoint } from '../../src/service/callbacks/callback-changes.ts';
import { removeInlineEndpoint } from '../../src/service/callbacks/inline-endpoints.ts';
import { insertDeliveries } from '../../src/store/deliveries/deliveries.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { CANCELED_AT_ONCE, sweepCancellations } from '../../src/sweeper/upkeep/sweep-cancellations.ts';
import { ok, status } from '../support/receiver.ts';
import { type SeedEndpoint, seedEndpoint } from '../support/seed.ts';
import { cancelAll, makeDelivery } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

const MANY = 2 * CANCELED_AT_ONCE + 100;

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(async () => {
  await fixture.endTest();
  await cancelAll(fixture.pool);
});
afterAll(() => fixture?.close());

/** An endpoint with so many pending deliveries. */
async function makeWaiting(count: number): Promise<SeedEndpoint> {
  const endpoint = await seedEndpoint(fixture, 'http://127.0.0.1:9/');
  await fixture.enqueue(endpoint, count);
  return endpoint;
}

/** `nowMs`: the clock of the caller, before it waited for the endpoint's lock. */
async function disable({ endpointId }: SeedEndpoint, nowMs?: number): Promise<void> {
  const { pool, project } = fixture;
  const clockMs = nowMs ?? (await fixture.nowMs());
  const gone = { projectId: project.projectId, endpointId, reason: 'gone' };
  expect(await inTransaction(pool, (tx) => disableEndpoint(tx, gone, clockMs))).toBe(true);
}

/** Activates it, in a later millisecond than that of its disabling. */
async function enable({ endpointId }: SeedEndpoint): Promise<void> {
  const nowMs = await fixture.nowMs();
  await waitFor(async () => (await fixture.nowMs()) > nowMs, { what: 'the next millisecond' });
  await fixture.pool.query("update callback_endpoints set lifecycle = 'active' where endpoint_id = $1", [
    endpointId,
  ]);
}

/** Why the deliveries that are due at the endpoint must not be sent; undefined for one that may be. */
async function claimAt(endpoint: SeedEndpoint) {
  const { deliveries } = await fixture.claim(endpoint);
  return deliveries.map(({ deliveryId, cancelReason }) => ({ deliveryId, cancelReason }));
}

const step = () => sweepCancellations(fixture);

async function canceledAt({ endpointId }: SeedEndpoint): Promise<number> {
  const { rows } = await fixture.pool.query<{ count: number }>(
    `select count(*)::integer as count from deliveries d join timeline_entries t
       on t.project_id = d.project_id and t.incident_id = d.incident_id and t.delivery ->> 'state' = d.state
     where d.endpoint_id = $1 and d.state = 'canceled'`,
    [endpointId],
  );
  return rows[0]?.count ?? Number.NaN;
}

/** Locks a delivery until `release`, or the end of the test. */
async function lockOneOf({ endpointId }: SeedEndpoint): Promise<() => Promise<void>> {
  const client = await fixture.pool.connect();
  await client.query('begin');
  await client.query('select from deliveries where project_id = $1 and endpoint_id = $2 limit 1 for update', [
    fixture.project.projectId,
    endpointId,
  ]);
  let isHeld = true;
  const release = async () => {
    if (!isHeld) return;
    isHeld = false;
    await client.query('rollback');
    client.release();
  };
  fixture.atEnd(release);
  return release;
}

describe('a cancellation', () => {
  it('a cancellation ends so many deliveries at a time, each with its entry in the timeline, and takes turns with others', async () => {
    const large = await makeWaiting(MANY);
    const small = await makeWaiting(3);
    await disable(large);
    await disable(small);
    expect(await canceledAt(large)).toBe(0);
    expect(await step()).toBe('more');
    expect(await canceledAt(large)).toBe(CANCELED_AT_ONCE);
    expect(await step()).toBe('more');
    expect(await canceledAt(small)).toBe(3);
    expect(await canceledAt(large)).toBe(CANCELED_AT_ONCE);
    await cancelAll(fixture.pool);
    expect(await canceledAt(large)).toBe(MANY);
    expect(await step()).toBe('idle');
  });

  it('a cancellation that several sweepers carry out at once cancels each delivery once', async () => {
    const endpoint = await makeWaiting(MANY);
    await disable(endpoint);
    await Promise.all([1, 2, 3].map(() => cancelAll(fixture.pool)));
    // A sweeper may have found what was left locked by another one.
    await cancelAll(fixture.pool);
    expect(await canceledAt(endpoint)).toBe(MANY);
    expect((await fixture.pool.query('select from cancellations')).rowCount).toBe(0);
  });

  it('a delivery that is locked is canceled when it is free, and holds up no other cancellation', async () => {
    const locked = await makeWaiting(1);
    const other = await makeWaiting(2);
    const release = await lockOneOf(locked);
    await disable(locked);
    await disable(other);
    expect(await step()).toBe('idle');
    expect(await step()).toBe('more');
    expect([await canceledAt(locked), await canceledAt(other)]).toEqual([0, 2]);
    await release();
    await cancelAll(fixture.pool);
    expect(await canceledAt(locked)).toBe(1);
  });

  it('an event at an endpoint that is active again waits no longer than for the cancellation of the one before', async () => {
    const { endpoint } = await fixture.receive(ok);
    const first = await fixture.enqueueOne(endpoint);
    const { rowCount } = await fixture.pool.query(
      `update deliveries set state = 'failing', next_attempt_at = now() + interval '4 hours' where delivery_id = $1`,
      [first.deliveryId],
    );
    expect(rowCount).toBe(1);
    await disable(endpoint);
    await enable(endpoint);
    const next = await fixture.enqueueOne(endpoint, { incidentId: first.incidentId, sequence: 2 });
    fixture.dispatch();
    const isMoved = async () => {
      const { next_attempt_at: dueAt, created_at: createdAt } = await fixture.rowOf(next);
      return dueAt > createdAt;
    };
    await waitFor(isMoved, { what: 'a claim has found that it waits' });
    await cancelAll(fixture.pool);
    await fixture.stateIs(next, 'delivered');
    expect((await fixture.rowOf(first)).state).toBe('canceled');
  });

  it('what is created at an endpoint after its disabling is not canceled with what was pending then', async () => {
    const endpoint = await makeWaiting(2);
    await disable(endpoint);
    await enable(endpoint);
    const later = await fixture.enqueueOne(endpoint);
    await cancelAll(fixture.pool);
    expect(await canceledAt(endpoint)).toBe(2);
    expect((await fixture.rowOf(later)).state).toBe('pending');
  });

  it('what a sweep that began before a disabling writes when the endpoint is active again is sent', async () => {
    const endpoint = await makeWaiting(0);
    const sweepMs = await fixture.nowMs();
    await disable(endpoint);
    await enable(endpoint);
    const row = makeDelivery(fixture.project, endpoint);
    await insertDeliveries(fixture.pool, [row], sweepMs);
    await cancelAll(fixture.pool);
    expect(await claimAt(endpoint)).toEqual([{ deliveryId: row.deliveryId, cancelReason: undefined }]);
  });

  it('what is created while a disabling waits for the endpoint is canceled too', async () => {
    const beforeMs = (await fixture.nowMs()) - 1_000;
    const endpoint = await makeWaiting(0);
    const row = await fixture.enqueueOne(endpoint);
    await disable(endpoint, beforeMs);
    await enable(endpoint);
    const { deliveryId } = row;
    expect(await claimAt(endpoint)).toEqual([{ deliveryId, cancelReason: 'endpoint_disabled' }]);
    await cancelAll(fixture.pool);
    expect((await fixture.rowOf(row)).state).toBe('canceled');
  });

  it('what is created while a removal waits for the endpoint is canceled too', async () => {
    const { pool, project } = fixture;
    const beforeMs = (await fixture.nowMs()) - 1_000;
    const { endpointId, ...endpoint } = await makeWaiting(0);
    const row = await fixture.enqueueOne({ endpointId, ...endpoint });
    const ref = { projectId: project.projectId, endpointId };
    await inTransaction(pool, (tx) =>
      removeInlineEndpoint(tx, ref, { reason: 'endpoint_removed' }, beforeMs),
    );
    await cancelAll(pool);
    expect((await fixture.rowOf(row)).state).toBe('canceled');
  });
});

describe('a 410', () => {
  it("a 410 of one project's receiver touches nothing that is pending there: outcomes of other projects are written", async () => {
    const gone = await fixture.receive(status(410));
    const first = await fixture.enqueueOne(gone.endpoint);
    // Of the same incident: it waits for the first one.
    const waiting = await fixture.enqueueOne(gone.endpoint, { incidentId: first.incidentId, sequence: 2 });
    const client = await fixture.pool.connect();
    await client.query('begin');
    await client.query('select from deliveries where project_id = $1 and delivery_id = $2 for update', [
      waiting.projectId,
      waiting.deliveryId,
    ]);
    fixture.atEnd(async () => {
      await client.query('rollback');
      client.release();
    });
    const neighbour = await fixture.neighbour();
    const { endpoint } = await neighbour.receive(ok);
    const row = await neighbour.enqueueOne(endpoint);
    fixture.dispatch();
    await fixture.stateIs(first, 'exhausted');
    await fixture.stateIs(row, 'delivered');
    expect(await fixture.endpointRow(gone.endpoint)).toMatchObject({ lifecycle: 'disabled' });
    await client.query('commit');
    await waitFor(
      async () => {
        await cancelAll(fixture.pool);
        return (await fixture.rowOf(waiting)).state === 'canceled';
      },
      { what: 'the delivery that waited is canceled' },
    );
    expect(gone.receiver.requests).toHaveLength(1);
  });
});
