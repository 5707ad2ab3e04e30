import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  deadlineAfter,
  nextWake,
  nextWakeAfterChange,
  outOfWindow,
  refitClock,
  shiftByOutages,
  shiftClock,
  startClock,
} from '../../../src/domain/deadline.ts';
import { anyTiming, everySchedule, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

describe('the deadline after a beat', () => {
  it('the deadline is interval plus grace after the beat', () => {
    expect(deadlineAfter(timingOf({ graceMs: 5 * MINUTE }), {}, NOW)).toBe(NOW + 6 * MINUTE);
  });

  it('with a schedule the deadline is grace after the next scheduled time, also for a beat exactly on time', () => {
    const timing = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR) });
    expect(deadlineAfter(timing, {}, NOW + SECOND)).toBe(NOW + HOUR + MINUTE);
    expect(deadlineAfter(timing, {}, NOW)).toBe(NOW + HOUR + MINUTE);
  });

  it('a learning monitor has no deadline, and a learned cadence sets one', () => {
    const learning = timingOf({ intervalMs: undefined });
    expect(deadlineAfter(learning, {}, NOW)).toBeUndefined();
    expect(deadlineAfter(learning, { cadenceMs: HOUR }, NOW)).toBe(NOW + HOUR + MINUTE);
  });

  it('a deadline inside a maintenance window moves to the end of the window, which is outside it', () => {
    const maintenance = { startsMs: NOW + MINUTE, endsMs: NOW + HOUR };
    expect(deadlineAfter(timingOf({ maintenance }), {}, NOW)).toBe(NOW + HOUR);
    expect(outOfWindow(NOW + HOUR, maintenance)).toBe(NOW + HOUR);
    expect(outOfWindow(NOW + MINUTE - 1, maintenance)).toBe(NOW + MINUTE - 1);
  });

  it('only an active monitor has a deadline', () => {
    expect(startClock(timingOf({ lifecycle: 'paused' }), liveOf(), NOW).deadlineMs).toBeUndefined();
  });
});

describe('an outage of our own', () => {
  const timing = timingOf();
  const outage = { fromMs: NOW, toMs: NOW + 10 * MINUTE };
  const shift = (dueMs: number, outages = [outage]) =>
    shiftByOutages(timing, { dueMs, appliedMs: 0 }, outages);

  it('an outage moves a deadline inside it, or within one grace after it, by its length', () => {
    expect(shift(NOW + 1).dueMs).toBe(NOW + 1 + 10 * MINUTE);
    expect(shift(outage.toMs + MINUTE).dueMs).toBe(outage.toMs + 11 * MINUTE);
  });

  it('an outage makes no punctual sender miss its deadline, and finds a dead sender in bounded time', () => {
    const seconds = (min: number, max: number) => fc.integer({ min, max });
    fc.assert(
      fc.property(
        seconds(1, 600),
        seconds(1, 600),
        seconds(0, 600),
        seconds(4, 3_600),
        (every, grace, into, span) => {
          const of = timingOf({ intervalMs: every * SECOND, graceMs: grace * SECOND });
          // The last beat that arrived, and the outage that began before the next one.
          const live = startClock(of, liveOf(), NOW);
          const fromMs = NOW + (into % every) * SECOND;
          const toMs = fromMs + span * SECOND;
          const { deadlineMs = 0 } = shiftClock(of, live, [{ fromMs, toMs }]);
          const beats = Math.floor((toMs - NOW) / (every * SECOND)) + 1;
          const nextBeatMs = NOW + beats * every * SECOND;
          expect(deadlineMs).toBeGreaterThan(nextBeatMs);
          expect(deadlineMs).toBeLessThanOrEqual(
            Math.max(live.deadlineMs ?? 0, toMs + (every + grace) * SECOND),
          );
          // A deadline that moves does so by at least the length of the outage.
          const moved = deadlineMs - (live.deadlineMs ?? 0);
          expect(moved === 0 || moved >= toMs - fromMs).toBe(true);
        },
      ),
    );
  });

  it('an outage moves a scheduled deadline to the next scheduled time after its end', () => {
    const of = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR) });
    const live = startClock(of, liveOf(), NOW);
    const span = { fromMs: NOW + HOUR - MINUTE, toMs: NOW + HOUR + 10 * SECOND };
    expect(shiftClock(of, live, [span]).deadlineMs).toBe(NOW + 2 * HOUR + MINUTE);
  });

  it('an outage moves no deadline before it and none later than one grace after it', () => {
    expect(shift(NOW).dueMs).toBe(NOW);
    expect(shift(outage.toMs + MINUTE + 1).dueMs).toBe(outage.toMs + MINUTE + 1);
  });

  it('an outage moves a deadline once, however often it is applied', () => {
    const anyOutages = fc
      .array(fc.tuple(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 4, max: 600 })), { maxLength: 8 })
      .map((steps) => {
        let atMs = NOW;
        return steps.map(([pause, length]) => {
          const fromMs = atMs + pause * SECOND;
          atMs = fromMs + length * SECOND;
          return { fromMs, toMs: atMs };
        });
      });
    fc.assert(
      fc.property(anyTiming, anyOutages, fc.integer({ min: 0, max: 7_200 }), (of, outages, after) => {
        const once = shiftByOutages(of, { dueMs: NOW + after * SECOND, appliedMs: 0 }, outages);
        expect(shiftByOutages(of, once, outages)).toEqual(once);
        // Applied one by one, as they happen, the outages move the deadline as far.
        let step = { dueMs: NOW + after * SECOND, appliedMs: 0 };
        for (let count = 1; count <= outages.length; count += 1) {
          step = shiftByOutages(of, step, outages.slice(0, count));
        }
        expect(step).toEqual(once);
        expect(once.dueMs).toBeGreaterThanOrEqual(NOW + after * SECOND);
      }),
    );
  });

  it('a sender whose beat fell into an outage has at least one grace after its end', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 86_400 }),
        fc.integer({ min: 4, max: 86_400 }),
        fc.integer({ min: 0, max: 86_400 }),
        (interval, length, before) => {
          const of = timingOf({ intervalMs: interval * SECOND });
          const beatMs = NOW - Math.min(before, interval) * SECOND;
          const expectedMs = beatMs + interval * SECOND;
          const toMs = NOW + length * SECOND;
          const due = { dueMs: expectedMs + of.graceMs, appliedMs: 0 };
          const { dueMs } = shiftByOutages(of, due, [{ fromMs: NOW, toMs }]);
          expect(dueMs).toBeGreaterThanOrEqual(Math.max(toMs, expectedMs) + of.graceMs);
        },
      ),
    );
  });
});

describe('a change of timing', () => {
  it('a change of timing counts from the start of the clock, or from now if the deadline would be in the past', () => {
    const live = startClock(timingOf({ intervalMs: HOUR }), liveOf(), NOW);
    const longer = refitClock(timingOf({ intervalMs: 2 * HOUR }), live, NOW + MINUTE);
    expect(longer.deadlineMs).toBe(NOW + 2 * HOUR + MINUTE);
    const shorter = refitClock(timingOf(), live, NOW + 30 * MINUTE);
    expect(shorter.deadlineMs).toBe(NOW + 31 * MINUTE);
  });

  it('a change of the longest run moves the end of an open run and lets outages since its start apply again', () => {
    const openRuns = [{ startedMs: NOW, dueMs: NOW + 20 * MINUTE, outageMs: NOW + 5 * MINUTE }];
    const refitted = refitClock(timingOf({ maxRuntimeMs: HOUR }), liveOf({ openRuns }), NOW + 10 * MINUTE);
    expect(refitted.openRuns).toEqual([{ startedMs: NOW, dueMs: NOW + HOUR, outageMs: undefined }]);
  });

  it('a change of timing starts no clock that a miss has stopped', () => {
    const missed = liveOf({ anchorMs: NOW, openIncidents: 1 });
    expect(refitClock(timingOf(), missed, NOW + HOUR).deadlineMs).toBeUndefined();
  });

  it('a change of timing starts the clock of a learning monitor with an incident of another kind', () => {
    const failed = liveOf({ anchorMs: NOW, openIncidents: 1 });
    expect(refitClock(timingOf(), failed, NOW, false).deadlineMs).toBe(NOW + 2 * MINUTE);
  });
});

describe('the next wake', () => {
  it('the next wake is at the late mark, then at the deadline', () => {
    const live = startClock(timingOf(), liveOf(), NOW);
    expect(nextWake(timingOf(), live, NOW)).toBe(NOW + MINUTE);
    expect(nextWake(timingOf(), live, NOW + MINUTE)).toBe(NOW + 2 * MINUTE);
  });

  it('the next wake is now when a change of timing makes a run overdue', () => {
    const timing = timingOf({ maxRuntimeMs: MINUTE });
    const live = liveOf({ openRuns: [{ startedMs: NOW - HOUR, dueMs: NOW - HOUR + MINUTE }] });
    expect(nextWakeAfterChange(timing, live, NOW)).toBe(NOW);
    expect(nextWakeAfterChange(timing, startClock(timing, liveOf(), NOW), NOW)).toBe(NOW + MINUTE);
  });

  it('the next wake is at the start, then at the end of a window, and never for a monitor that is not active', () => {
    const timing = timingOf({ maintenance: { startsMs: NOW + SECOND, endsMs: NOW + HOUR } });
    expect(nextWake(timing, liveOf(), NOW)).toBe(NOW + SECOND);
    expect(nextWake(timing, liveOf(), NOW + SECOND)).toBe(NOW + HOUR);
    expect(nextWake(timing, liveOf(), NOW + HOUR)).toBeUndefined();
    expect(nextWake({ ...timing, lifecycle: 'archived' }, liveOf(), NOW)).toBeUndefined();
  });
});
