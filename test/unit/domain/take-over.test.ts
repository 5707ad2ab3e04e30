import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { changeLifecycle, takeOver } from '../../../src/domain/lifecycle.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const running = liveOf({ anchorMs: NOW - MINUTE, deadlineMs: NOW + MINUTE, firstBeatMs: NOW - MINUTE });

describe('a monitor whose object was made again', () => {
  it('starts its clock exactly as a restore does, whatever its timing is', () => {
    fc.assert(
      fc.property(anyTiming, fc.integer({ min: 0, max: 7_200 }), (timing, seconds) => {
        const nowMs = NOW + seconds * SECOND;
        const openRuns = [{ runId: 'a', startedMs: NOW, dueMs: NOW + 10 * MINUTE }];
        const live = { ...running, openRuns, missedCount: 1, unmovedMs: NOW };
        const taken = takeOver(timing, live, nowMs);
        const { maintenance: _, ...without } = timing;
        const archived = { ...without, lifecycle: 'archived' } as const;
        const restored = changeLifecycle(archived, live, 'restore', { nowMs });
        if (timing.maintenance) {
          expect(taken.deadlineMs ?? nowMs).toBeGreaterThanOrEqual(restored.live.deadlineMs ?? nowMs);
          expect(taken).toMatchObject({ anchorMs: nowMs, missedCount: 0, unmovedMs: undefined });
        } else expect(taken).toEqual(restored.live);
      }),
    );
  });

  it('opens nothing when a sweeper looks at it at once, however long it had been silent', () => {
    fc.assert(
      fc.property(anyTiming, fc.integer({ min: 1, max: 1_000_000 }), (timing, seconds) => {
        const nowMs = NOW + seconds * SECOND;
        const taken = takeOver(timing, running, nowMs);
        const moment = { nowMs, horizonMs: nowMs, outages: [] };
        expect(wakeMonitor(timing, taken, [], moment).transitions).toEqual([]);
      }),
    );
  });

  it.each([
    ['waits for its first beat', timingOf(), liveOf()],
    ['is paused', timingOf({ lifecycle: 'paused' }), liveOf({ anchorMs: NOW - HOUR })],
    ['is archived', timingOf({ lifecycle: 'archived' }), liveOf({ anchorMs: NOW - HOUR })],
  ])('stays as it is where it %s', (_, timing, live) => {
    expect(takeOver(timing, live, NOW)).toEqual(live);
  });
});
