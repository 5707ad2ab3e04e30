// What becomes of a delivery by what its receiver answered.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LIFE_MS } from '../../../src/delivery/retry-schedule.ts';
import { type ClaimedDelivery, LEASE_MS } from '../../../src/store/deliveries/delivery-queue.ts';
import { describeOutcome, outcomeOf } from '../../../src/sweeper/deliveries/delivery-outcome.ts';

const HOUR_MS = 3_600_000;

const REFUSED = { delivered: false, gone: false, refusedForNow: true, statusCode: 429, latencyMs: 1 };

/** What becomes of a delivery of this age that the relay takes not for now. */
function refuse(ageMs: number, attemptCount = 0) {
  const endpoint = { projectId: 'p', endpointId: 'cb' };
  const leaseUntilMs = ageMs + LEASE_MS;
  const claim = { ...{ endpoint, attemptCount, createdMs: 0, leaseUntilMs }, event: 'incident.opened' };
  const outcome = outcomeOf(claim as ClaimedDelivery, REFUSED, { startedAt: 0, finishedAt: 0 });
  return describeOutcome(outcome, 0).result;
}

it('a delivery that the relay refuses all its life ends once that is over, after less than 100 tries', () => {
  let ageMs = 0;
  let tries = 1;
  for (let result = refuse(ageMs); result.state !== 'exhausted'; result = refuse(ageMs), tries += 1) {
    expect(result).toMatchObject({ state: 'unchanged', attempt: 1 });
    ageMs += result.nextAttemptInMs ?? Number.NaN;
  }
  expect(ageMs).toBeGreaterThanOrEqual(LIFE_MS);
  expect(ageMs).toBeLessThan(LIFE_MS + 1.2 * HOUR_MS);
  expect(tries).toBeLessThan(100);
});

it('a refusal for now at the end of that life is the last attempt, however many were before', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 7 }), (attemptCount) => {
      expect(refuse(LIFE_MS - 1, attemptCount)).toMatchObject({ state: 'unchanged' });
      expect(refuse(LIFE_MS, attemptCount)).toMatchObject({ state: 'exhausted', attempt: attemptCount + 1 });
    }),
  );
});
