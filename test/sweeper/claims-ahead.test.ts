// Deliveries that are claimed before their endpoint has a place for them: how soon they are sent or given back, and what
// ends them in between.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Answer, ok, status } from '../support/receiver.ts';
import { cancelAll, startDispatcher } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, holding, idsOf, openDeliveryFixture } from './delivery-fixture.ts';

/** Attempts at once to one endpoint. */
const PLACES = 32;
/** Longer than a test takes. */
const HANGING_MS = { attemptTimeoutMs: 200_000 };

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

/** Answers so many at once, and the others by `then`. */
function first(count: number, then: Answer): Answer {
  let left = count;
  return (...request) => {
    left -= 1;
    (left >= 0 ? ok : then)(...request);
  };
}

async function leased(): Promise<number> {
  const { rowCount } = await fixture.pool.query('select from deliveries where lease_owner is not null');
  return rowCount ?? 0;
}

/** A receiver that hangs after so many answers, with 400 deliveries; its places are taken, and more are held for it. */
async function hangAfter(count: number) {
  const held = holding();
  const at = await fixture.receive(first(count, held.answer));
  const rows = await fixture.enqueue(at.endpoint, 400);
  const dispatcher = startDispatcher(fixture, { pollMs: 20, ...HANGING_MS });
  const areTaken = () => at.receiver.requests.length === count + PLACES;
  await waitFor(areTaken, { what: 'all places are taken', intervalMs: 1 });
  return { ...at, rows, dispatcher, release: held.release };
}

describe('deliveries that are claimed ahead', () => {
  it('deliveries that are held for an endpoint which answers no more are given back, without an attempt', async () => {
    const { receiver, dispatcher, release } = await hangAfter(100);
    // What was answered is written, and what is under way is leased; nothing else is.
    await waitFor(async () => (await leased()) === PLACES, { what: 'the others are given back' });
    const { rows } = await fixture.pool.query(
      `select count(*)::integer as count from deliveries
       where state = 'pending' and attempt_count = 0 and first_at is null and lease_owner is null`,
    );
    expect(rows[0]?.count).toBe(400 - 100 - PLACES);
    release();
    await waitFor(() => receiver.requests.length === 400, { what: 'they are sent when it answers again' });
    await dispatcher.stop();
    expect(new Set(idsOf(receiver)).size).toBe(400);
    expect(await leased()).toBe(0);
  });

  it('deliveries that were held when their endpoint was disabled are not sent once they are given back', async () => {
    const { endpoint, receiver, dispatcher, release } = await hangAfter(100);
    await fixture.pool.query(
      `update callback_endpoints set lifecycle = 'disabled', canceled_until = now() where endpoint_id = $1`,
      [endpoint.endpointId],
    );
    await waitFor(async () => (await leased()) === PLACES, { what: 'the others are given back' });
    release();
    const isNothingLeft = async () => {
      const text = `select from deliveries where endpoint_id = $1 and state = 'pending'`;
      return (await fixture.pool.query(text, [endpoint.endpointId])).rowCount === 0;
    };
    await waitFor(isNothingLeft, { what: 'all have ended' });
    await dispatcher.stop();
    expect(receiver.requests).toHaveLength(100 + PLACES);
  });

  it('a dispatcher that stops sends nothing of what it holds, and gives it back', async () => {
    const { receiver, dispatcher, release } = await hangAfter(100);
    const stopping = dispatcher.stop();
    release();
    await stopping;
    expect(receiver.requests).toHaveLength(100 + PLACES);
    expect(await leased()).toBe(0);
  });

  it('deliveries that are held for an endpoint which answers 410 are not sent', async () => {
    const { receiver, endpoint } = await fixture.receive(first(100, status(410)));
    await fixture.enqueue(endpoint, 400);
    const dispatcher = startDispatcher(fixture, { pollMs: 20 });
    const isDisabled = async () => (await fixture.endpointRow(endpoint)).lifecycle === 'disabled';
    await waitFor(isDisabled, { what: 'the endpoint is disabled' });
    await dispatcher.stop();
    await cancelAll(fixture.pool);
    // Those that were under way when the first 410 came.
    expect(receiver.requests.length).toBeLessThanOrEqual(100 + PLACES);
    expect(await leased()).toBe(0);
  });
});
