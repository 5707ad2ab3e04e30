import { describe, expect, it } from 'vitest';
import {
  deadlineAfter,
  nextWake,
  refitClock,
  refitRuns,
  startClock,
  withWakeAfterChange,
} from '../../../src/domain/deadline.ts';
import { healthOf } from '../../../src/domain/health.ts';
import { outOfWindow } from '../../../src/domain/maintenance.ts';
import { everySchedule, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

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
    expect(outOfWindow(NOW + HOUR, { maintenance })).toBe(NOW + HOUR);
    expect(outOfWindow(NOW + MINUTE - 1, { maintenance })).toBe(NOW + MINUTE - 1);
  });

  it('only an active monitor has a deadline', () => {
    expect(startClock(timingOf({ lifecycle: 'paused' }), liveOf(), NOW).deadlineMs).toBeUndefined();
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

  it('a change of the longest run moves the end of an open run', () => {
    const openRuns = [{ startedMs: NOW, dueMs: NOW + 20 * MINUTE }];
    const refitted = refitRuns(timingOf({ maxRuntimeMs: HOUR }), openRuns, NOW + 10 * MINUTE);
    expect(refitted).toEqual([{ startedMs: NOW, dueMs: NOW + HOUR }]);
  });

  it('a smaller maxRuntimeSeconds leaves an open run at least one grace, however long it has lasted', () => {
    const openRuns = [{ startedMs: NOW, dueMs: NOW + 20 * HOUR }];
    const changedMs = NOW + 10 * HOUR;
    const timing = timingOf({ maxRuntimeMs: HOUR });
    expect(refitRuns(timing, openRuns, changedMs)).toEqual([
      { startedMs: NOW, dueMs: changedMs + timing.graceMs },
    ]);
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

  it('with a schedule a monitor is late from half of the grace after the cron time', () => {
    const timing = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR), graceMs: 10 * MINUTE });
    const live = startClock(timing, liveOf({ firstBeatMs: NOW }), NOW);
    const lateMs = NOW + HOUR + 5 * MINUTE;
    expect(nextWake(timing, live, NOW)).toBe(lateMs);
    expect(healthOf(timing, live, [], lateMs - 1)).toBe('up');
    expect(healthOf(timing, live, [], lateMs)).toBe('late');
  });

  it('the next wake is now when a change of timing makes a run overdue', () => {
    const timing = timingOf({ maxRuntimeMs: MINUTE });
    const live = liveOf({ openRuns: [{ startedMs: NOW - HOUR, dueMs: NOW - HOUR + MINUTE }] });
    expect(withWakeAfterChange(timing, live, NOW).wakeMs).toBe(NOW);
    expect(withWakeAfterChange(timing, startClock(timing, liveOf(), NOW), NOW).wakeMs).toBe(NOW + MINUTE);
  });

  it('the next wake is at the start, then at the end of a window, and never for a monitor that is not active', () => {
    const timing = timingOf({ maintenance: { startsMs: NOW + SECOND, endsMs: NOW + HOUR } });
    expect(nextWake(timing, liveOf(), NOW)).toBe(NOW + SECOND);
    expect(nextWake(timing, liveOf(), NOW + SECOND)).toBe(NOW + HOUR);
    expect(nextWake(timing, liveOf(), NOW + HOUR)).toBeUndefined();
    expect(nextWake({ ...timing, lifecycle: 'archived' }, liveOf(), NOW)).toBeUndefined();
  });

  it('the next wake is when time makes a rule graver, or at the end of the window in which it would', () => {
    const live = liveOf({ escalatesMs: NOW + MINUTE });
    expect(nextWake(timingOf(), live, NOW)).toBe(NOW + MINUTE);
    // One that is past is looked at, as a deadline is.
    expect(nextWake(timingOf(), live, NOW + HOUR)).toBe(NOW + MINUTE);
    const window = timingOf({ maintenance: { startsMs: NOW + SECOND, endsMs: NOW + HOUR } });
    expect(nextWake(window, live, NOW + SECOND)).toBe(NOW + HOUR);
    expect(nextWake(window, { ...live, escalatesMs: NOW }, NOW + SECOND)).toBe(NOW + HOUR);
  });
});
