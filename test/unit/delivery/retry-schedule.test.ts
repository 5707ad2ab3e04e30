import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  LIFE_MS,
  nextDeliveryState,
  parseRetryAfter,
  postponementOf,
  RETRY_WAITS_MS,
} from '../../../src/delivery/retry-schedule.ts';

const FAILED = { delivered: false, gone: false };
const HOUR_MS = 3_600_000;

describe('the retry schedule', () => {
  it('the retry schedule is the one of the contract', () => {
    const next = [1, 2, 3, 4, 5, 6, 7].map((attemptNumber) =>
      nextDeliveryState({ outcome: FAILED, attemptNumber, finishedAtMs: 0, random: 0.5 }),
    );
    const seconds = next.map((state) =>
      state.state === 'failing' ? state.nextAttemptAtMs / 1000 : undefined,
    );
    expect(seconds).toEqual([5, 30, 120, 600, 3_600, 14_400, 43_200]);
    expect(nextDeliveryState({ outcome: FAILED, attemptNumber: 8, finishedAtMs: 0, random: 0.5 })).toEqual({
      state: 'exhausted',
    });
  });

  it('the wait is the scheduled one ±10 %, or what the receiver asks for, up to one hour', () => {
    const attempt = fc.record({
      attemptNumber: fc.integer({ min: 1, max: RETRY_WAITS_MS.length - 1 }),
      finishedAtMs: fc.integer({ min: 0, max: 4e12 }),
      random: fc.double({ min: 0, max: 1, noNaN: true }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 10 * HOUR_MS }), { nil: undefined }),
    });
    fc.assert(
      fc.property(attempt, ({ retryAfterMs, ...rest }) => {
        const next = nextDeliveryState({ ...rest, outcome: { ...FAILED, retryAfterMs } });
        if (next.state !== 'failing') throw new Error(`unexpected ${next.state}`);
        const wait = next.nextAttemptAtMs - rest.finishedAtMs;
        const planned = RETRY_WAITS_MS[rest.attemptNumber] ?? 0;
        const asked = Math.min(retryAfterMs ?? 0, HOUR_MS);
        expect(wait).toBeGreaterThanOrEqual(Math.max(planned * 0.9, asked) - 1);
        expect(wait).toBeLessThanOrEqual(Math.max(planned * 1.1, asked) + 1);
      }),
    );
  });

  it('a delivery ends after at most eight attempts', () => {
    const outcome = fc.record({ delivered: fc.boolean(), gone: fc.boolean() });
    fc.assert(
      fc.property(fc.array(outcome, { minLength: 8, maxLength: 8 }), (outcomes) => {
        const states = outcomes.map((given, index) =>
          nextDeliveryState({ outcome: given, attemptNumber: index + 1, finishedAtMs: 0, random: 0 }),
        );
        const end = states.findIndex((state) => state.state !== 'failing');
        expect(end).toBeGreaterThanOrEqual(0);
        const first = outcomes[end];
        expect(states[end]?.state).toBe(first?.delivered ? 'delivered' : 'exhausted');
      }),
    );
  });

  it('a delivery ends at 410, which disables the endpoint', () => {
    const outcome = { delivered: false, gone: true, retryAfterMs: 5_000 };
    expect(nextDeliveryState({ outcome, attemptNumber: 1, finishedAtMs: 0, random: 0 })).toEqual({
      state: 'exhausted',
      disableEndpoint: 'gone',
    });
  });
});

describe('Retry-After', () => {
  const NOW_MS = Date.UTC(2026, 0, 1, 12, 0, 0);

  it.each([
    ['0', 0],
    ['120', 120_000],
    [' 120 ', 120_000],
    ['3600', HOUR_MS],
    ['3601', HOUR_MS],
    ['9'.repeat(400), HOUR_MS],
    ['Thu, 01 Jan 2026 12:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 11:00:00 GMT', 0],
    ['Thu, 01 Jan 2099 11:00:00 GMT', HOUR_MS],
    ['Thursday, 01-Jan-26 12:00:30 GMT', 30_000],
    ['Thu Jan  1 12:00:30 2026', 30_000],
    ['Thu Jan  1 12:00:30 2026 GMT', undefined],
    [['5', '9'], 5_000],
    [undefined, undefined],
    ['', undefined],
    ['-5', undefined],
    ['1.5', undefined],
    ['2026', 2_026_000],
    ['2026-01-01T12:00:30Z', undefined],
    ['Thu, 99 Jan 2026 12:00:30 GMT', undefined],
    ['soon', undefined],
  ])('a Retry-After of %j is a wait of %j ms', (header, expected) => {
    expect(parseRetryAfter(header, NOW_MS)).toBe(expected);
  });
});

describe('a refusal that counts no attempt', () => {
  it('a delivery is postponed until the end of its life, at most 100 times', () => {
    const random = fc.double({ min: 0, max: 1, noNaN: true });
    fc.assert(
      fc.property(random, (drawn) => {
        let ageMs = 0;
        let tries = 0;
        for (let waitMs: number | undefined = 0; waitMs !== undefined; tries += 1) {
          ageMs += waitMs;
          waitMs = postponementOf({ ageMs, random: drawn });
        }
        expect(ageMs).toBeGreaterThanOrEqual(LIFE_MS);
        expect(ageMs).toBeLessThan(LIFE_MS + 2 * HOUR_MS);
        expect(tries).toBeLessThan(100);
      }),
    );
  });

  it('the wait is what the receiver asks for where that is longer, up to one hour', () => {
    const waitOf = (retryAfterMs: number) => postponementOf({ ageMs: 60_000, retryAfterMs, random: 0 });
    expect([0, 20_000, 5 * HOUR_MS].map(waitOf)).toEqual([10_000, 20_000, HOUR_MS]);
  });
});
