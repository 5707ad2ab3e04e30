// How long what a dispatcher has seen in the outbox serves, where a look takes long: a database that is slow at looks,
// and at nothing else.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Dispatcher } from '../../src/sweeper/deliveries/dispatcher.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

interface Look {
  startedAt: number;
  endedAt: number;
  /** Endpoints that claims asked for since. */
  asked: string[];
}

let fixture: DeliveryFixture;
let looks: Look[];
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
beforeEach(() => {
  looks = [];
});
afterEach(async () => {
  await fixture.endTest();
  vi.restoreAllMocks();
});
afterAll(() => fixture?.close());

/** Each look takes `lookMs` more; `duringLook` is called when it has read the outbox. */
function slowLooks(lookMs: number, duringLook?: () => void): void {
  const { pool } = fixture;
  const query = pool.query.bind(pool);
  vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
    const { name, values = [] } = given[0] as { name?: string; values?: unknown[] };
    if (name === 'claim-deliveries') looks.at(-1)?.asked.push(...(values[1] as string[]));
    if (name !== 'find-due-endpoints') return await query(...given);
    const startedAt = performance.now();
    const answer = await query(...given);
    duringLook?.();
    await new Promise((resolve) => setTimeout(resolve, lookMs));
    looks.push({ startedAt, endedAt: performance.now(), asked: [] });
    return answer;
  });
}

/** From the end of each look to the next one, ms. */
const gaps = () => looks.slice(1).map(({ startedAt }, index) => startedAt - (looks[index]?.endedAt ?? 0));

describe('a look that takes long', () => {
  it('keeps what other processes put into the outbox waiting for no longer than a moment', async () => {
    slowLooks(1_000);
    fixture.dispatch({ pollMs: 1 });
    await waitFor(() => gaps().some((gapMs) => gapMs < 2_000), { what: 'a look soon after another' });
  });

  it('is followed by another when something is put into the outbox here meanwhile', async () => {
    let dispatcher: Dispatcher | undefined;
    slowLooks(200, () => dispatcher?.wake());
    dispatcher = fixture.dispatch({ pollMs: 1 });
    await waitFor(() => gaps().some((gapMs) => gapMs < 125), { what: 'a look just after another' });
  });

  it('asks an endpoint at which nothing may go out once, and not again while it serves', async () => {
    const endpoints = 1_600;
    await fixture.enqueueElsewhere(endpoints, 3_600_000);
    await fixture.pool.query(
      `insert into deliveries (project_id, delivery_id, endpoint_id, endpoint_project_id, incident_id, event, sequence,
         webhook_id, body, next_attempt_at, created_at)
       select project_id, delivery_id || '_next', endpoint_id, endpoint_project_id, incident_id, 'incident.resolved', 2,
         webhook_id || '_next', '{}', now(), now()
       from deliveries where state = 'failing'`,
    );
    slowLooks(100);
    fixture.dispatch({ pollMs: 1 });
    await waitFor(() => looks.length > 8, { what: 'some looks' });
    expect(looks.some(({ asked }) => asked.length > 0)).toBe(true);
    for (const { asked } of looks) expect(asked).toHaveLength(new Set(asked).size);
  });
});
