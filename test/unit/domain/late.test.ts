// A healthy job is never late (docs/contract/deadlines.md), by the real schedule over a year with both changes of the clock.
import { expect, it } from 'vitest';
import { nextWake, startClock } from '../../../src/domain/deadline.ts';
import { healthOf } from '../../../src/domain/health.ts';
import { compileSchedule } from '../../../src/domain/schedule.ts';
import { HOUR, liveOf, MINUTE, timingOf } from './timing.ts';

const DAY = 24 * HOUR;

it.each([
  ['0 2 * * *', 'Europe/Berlin', 30 * MINUTE],
  ['*/5 * * * *', 'UTC', MINUTE],
  ['30 1 * * 1-5', 'America/New_York', 60 * MINUTE],
])(
  'a job at %s (%s) that ends within half of its grace is never late, and no sweeper wakes for it',
  (cron, timeZone, graceMs) => {
    const schedule = compileSchedule({ cron, timeZone });
    const timing = timingOf({ intervalMs: undefined, schedule, graceMs });
    const beginMs = Date.UTC(2026, 0, 1);
    // Every fifth minute of a year would be many: a day of them, and a year of the others.
    const endMs = beginMs + (cron.startsWith('*/') ? DAY : 365 * DAY);
    let live = startClock(timing, liveOf({ firstBeatMs: beginMs }), beginMs);
    let runs = 0;
    for (let cronMs = schedule.nextAfter(beginMs) ?? endMs; cronMs < endMs; runs += 1) {
      // At its cron time, in each tenth of the first half of the grace, and just before it ends.
      const endsMs = cronMs + graceMs / 2 - 1;
      for (const atMs of [cronMs - 1, cronMs, cronMs + graceMs / 10, cronMs + (graceMs * 3) / 10, endsMs])
        expect(healthOf(timing, live, [], atMs)).toBe('up');
      expect(nextWake(timing, live, cronMs)).toBeGreaterThan(endsMs);
      live = startClock(timing, live, endsMs);
      cronMs = schedule.nextAfter(cronMs) ?? endMs;
    }
    expect(runs).toBeGreaterThan(200);
  },
);
