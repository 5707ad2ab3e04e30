// How often something is tried, for any failures and any times.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs, TokenBucket } from '../../../src/kube/backoff.ts';

describe('backoff', () => {
  it('a backoff doubles up to its limit, with a jitter of at most a fifth', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (failures, r) => {
          const delayMs = backoffMs(failures, { baseMs: 1000, maxMs: 30_000, random: () => r });
          const middleMs = Math.min(1000 * 2 ** (failures - 1), 30_000);
          expect(delayMs).toBeGreaterThanOrEqual(middleMs * 0.799);
          expect(delayMs).toBeLessThanOrEqual(middleMs * 1.201);
        },
      ),
    );
  });
});

describe('a token bucket', () => {
  it('a token bucket never gives more than its burst and its rate', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 500 }), { maxLength: 200 }), (gaps) => {
        const bucket = new TokenBucket(5, 10);
        let nowMs = 0;
        let given = 0;
        for (const gapMs of gaps) {
          nowMs += gapMs;
          if (bucket.tryTake(nowMs)) given += 1;
        }
        expect(given).toBeLessThanOrEqual(10 + (nowMs / 1000) * 5 + 1e-6);
      }),
    );
  });

  it('a reservation on credit returns the time until it is paid', () => {
    const bucket = new TokenBucket(10, 2);
    expect([1, 2, 3, 4].map(() => bucket.reserve(0))).toEqual([0, 0, 100, 200]);
    expect(bucket.reserve(1000)).toBe(0);
  });

  it('a reservation waits at most a minute, whatever the number of reservations before it', () => {
    const bucket = new TokenBucket(10, 100);
    for (let i = 0; i < 10_000; i += 1) bucket.reserve(0);
    expect(bucket.reserve(0)).toBe(60_000);
    // After that minute the credit is paid.
    expect(bucket.reserve(60_200)).toBe(0);
  });
});
