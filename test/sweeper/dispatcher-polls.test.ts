// For how long the result of a poll serves a dispatcher, on a database that is slow at polls and at nothing else.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Dispatcher } from '../../src/sweeper/deliveries/dispatcher.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

interface Poll {
  startedAt: number;
  endedAt: number;
  /** Endpoints that claims have asked for since. */
  asked: string[];
}

let fixture: DeliveryFixture;
let polls: Poll[];
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
beforeEach(() => {
  polls = [];
});
afterEach(async () => {
  await fixture.endTest();
  vi.restoreAllMocks();
});
afterAll(() => fixture?.close());

/** Each poll takes `pollMs` longer; `duringPoll` is called when it has read the outbox. */
function slowPolls(pollMs: number, duringPoll?: () => void): void {
  const { pool } = fixture;
  const query = pool.query.bind(pool);
  vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
    const { name, values = [] } = given[0] as { name?: string; values?: unknown[] };
    if (name === 'claim-deliveries') polls.at(-1)?.asked.push(...(values[1] as string[]));
    if (name !== 'find-due-endpoints') return await query(...given);
    const startedAt = performance.now();
    const answer = await query(...given);
    duringPoll?.();
    await new Promise((resolve) => setTimeout(resolve, pollMs));
    polls.push({ startedAt, endedAt: performance.now(), asked: [] });
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
    slowPolls(200, () => dispatcher?.wake());
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
