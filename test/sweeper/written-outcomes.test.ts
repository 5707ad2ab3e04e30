// What is written of an attempt, however late its claim was answered and whoever holds the delivery by then.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { AttemptResult } from '../../src/delivery/sender.ts';
import { updateLastDeliveries } from '../../src/store/callbacks/callback-endpoints.ts';
import type { ClaimedDelivery } from '../../src/store/deliveries/delivery-queue.ts';
import { writeDeliveryResults } from '../../src/store/deliveries/delivery-results.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { describeOutcome } from '../../src/sweeper/deliveries/delivery-outcome.ts';
import type { SeedEndpoint } from '../support/seed.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

const claim = async (owner: string, endpoint: SeedEndpoint, db?: Queryable) =>
  (await fixture.claim(endpoint, { owner, db })).deliveries;

/** Writes the results of attempts that ended one after the other, the last one now. */
async function write(owner: string, attempts: [ClaimedDelivery | undefined, Partial<AttemptResult>][]) {
  const now = performance.now();
  const results = attempts.map(([one, result], index) => {
    if (!one) throw new Error('There is no claim.');
    const finishedAt = now - (attempts.length - 1 - index) * 10;
    const sent = { delivered: false, gone: false, latencyMs: 5, ...result };
    return describeOutcome(
      { claim: one, kind: 'sent', result: sent, startedAt: finishedAt - 5, finishedAt },
      now,
    ).result;
  });
  const { newest = [] } = await writeDeliveryResults(fixture.pool, { owner, results });
  await updateLastDeliveries(fixture.pool, newest);
}

describe('the outcome of an attempt', () => {
  it('has its wait from the end of the attempt on, also where the answer to the claim was late', async () => {
    const { endpoint } = await fixture.receive();
    const row = await fixture.enqueueOne(endpoint);
    const owner = randomUUID();
    const late = {
      query: async (...query: Parameters<Queryable['query']>) => {
        const answer = await fixture.pool.query(...query);
        await sleep(1_500);
        return answer;
      },
    } as Queryable;
    const [one] = await claim(owner, endpoint, late);
    const endedMs = await fixture.nowMs();
    await write(owner, [[one, { statusCode: 503, retryAfterMs: 10_000 }]]);
    const { next_attempt_at: next, first_at: first } = await fixture.rowOf(row);
    expect(next.getTime()).toBeGreaterThanOrEqual(endedMs + 10_000);
    expect(first.getTime()).toBeGreaterThanOrEqual(endedMs - 5);
  });

  it('that another dispatcher has sent since is not the last one of the endpoint', async () => {
    const { endpoint } = await fixture.receive();
    const [kept, lost] = await fixture.enqueue(endpoint, 2);
    if (!kept || !lost) throw new Error('There are no rows.');
    const [owner, other] = [randomUUID(), randomUUID()];
    const mine = await claim(owner, endpoint);
    const query = 'update deliveries set lease_until = now() where delivery_id = $1';
    await fixture.pool.query(query, [lost.deliveryId]);
    const [theirs] = await claim(other, endpoint);
    await write(other, [[theirs, { delivered: true, statusCode: 200 }]]);
    const of = ({ deliveryId }: typeof kept) => mine.find((one) => one.deliveryId === deliveryId);
    await write(owner, [
      [of(kept), { delivered: true, statusCode: 204 }],
      [of(lost), { gone: true, statusCode: 410 }],
    ]);
    expect((await fixture.rowOf(lost)).state).toBe('delivered');
    const { last_delivery: last } = await fixture.endpointRow(endpoint);
    // Whichever of the two that were written ended last.
    expect(last).toMatchObject({ state: 'delivered', statusCode: expect.toBeOneOf([200, 204]) });
    expect(new Date(last.at).toISOString()).toBe(last.at);
  });
});
