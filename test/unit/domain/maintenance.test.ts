// Maintenance windows against a plain model: the minutes that some window covers, one after the other.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  crossesWindow,
  hasLongRow,
  type MaintenanceSchedule,
  outOfWindow,
  recurrenceOf,
  type Window,
  windowAt,
  windowFrom,
} from '../../../src/domain/maintenance.ts';
import { compileSchedule } from '../../../src/domain/schedule.ts';
import { HOUR, MINUTE } from './timing.ts';

const DAY = 24 * HOUR;
const BEGIN = Date.UTC(2026, 2, 27);
/** Over the change to summer time in Berlin. */
const DAYS = 6;

const schedule: fc.Arbitrary<MaintenanceSchedule> = fc.record({
  cron: fc.constantFrom('0 2 * * *', '30 22 * * 5,6', '0 */6 * * *', '15 3 29 * *', '0 0 * * 6,0'),
  timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York'),
  durationSeconds: fc.integer({ min: 1, max: 30 * 60 }).map((minutes) => minutes * 60),
});
const own: fc.Arbitrary<Window> = fc
  .record({ from: fc.nat(DAYS * 24 * 60), length: fc.integer({ min: 1, max: 24 * 60 }) })
  .map(({ from, length }) => ({ startsMs: BEGIN + from * MINUTE, endsMs: BEGIN + (from + length) * MINUTE }));

/** For each minute from BEGIN on whether some window covers it. */
function coveredMinutes(
  schedules: readonly MaintenanceSchedule[],
  maintenance: Window | undefined,
  sinceMs: number,
): boolean[] {
  const windows: Window[] = maintenance ? [maintenance] : [];
  for (const { durationSeconds, ...spec } of schedules) {
    const compiled = compileSchedule(spec);
    for (
      let atMs = compiled.nextAfter(BEGIN - 10 * DAY);
      atMs && atMs < BEGIN + 2 * DAYS * DAY;
      atMs = compiled.nextAfter(atMs)
    ) {
      if (atMs >= sinceMs) windows.push({ startsMs: atMs, endsMs: atMs + durationSeconds * 1_000 });
    }
  }
  const covered: boolean[] = Array(2 * DAYS * 24 * 60).fill(false);
  const minuteOf = (atMs: number) => Math.max(0, (atMs - BEGIN) / MINUTE);
  for (const { startsMs, endsMs } of windows) covered.fill(true, minuteOf(startsMs), minuteOf(endsMs));
  return covered;
}

describe('the windows of a monitor', () => {
  it('are the runs of covered minutes, whoever asks and in whatever order', () => {
    fc.assert(
      fc.property(
        fc.array(schedule, { maxLength: 4 }),
        fc.option(own, { nil: undefined }),
        fc.option(fc.nat(DAYS * 24 * 60), { nil: undefined }),
        fc.array(fc.nat(DAYS * 24 * 60), { minLength: 1, maxLength: 30 }),
        (schedules, maintenance, since, minutes) => {
          const sinceMs = since === undefined ? Number.NEGATIVE_INFINITY : BEGIN + since * MINUTE;
          const covered = coveredMinutes(schedules, maintenance, sinceMs);
          fc.pre(!hasLongRow(schedules));
          const maintained = { maintenance, recurrence: recurrenceOf(schedules, sinceMs) };
          for (const minute of minutes) {
            const atMs = BEGIN + minute * MINUTE;
            const end = covered.findIndex((isCovered, index) => index >= minute && !isCovered);
            const endMs = BEGIN + (end < 0 ? covered.length : end) * MINUTE;
            // What lies past the end of the model is not judged.
            if (end < 0) continue;
            expect(windowAt(maintained, atMs)?.endsMs).toBe(covered[minute] ? endMs : undefined);
            expect(outOfWindow(atMs, maintained)).toBe(endMs);
            const next = covered.findIndex((isCovered, index) => index >= minute && isCovered);
            const begin = covered.lastIndexOf(false, minute) + 1;
            // What began before the model is not judged. One that a person has set counts until it is over.
            if (covered[minute] && begin > 0 && !maintenance)
              expect(windowAt(maintained, atMs)?.startsMs).toBe(BEGIN + begin * MINUTE);
            if (!covered[minute] && next >= 0) {
              expect(windowFrom(maintained, atMs)?.startsMs).toBe(BEGIN + next * MINUTE);
            }
            const until = Math.min(minute + 600, covered.length - 1);
            const isCrossed = covered.slice(minute, until + 1).includes(true);
            expect(crossesWindow(maintained, atMs, BEGIN + until * MINUTE)).toBe(isCrossed);
          }
        },
      ),
    );
  });

  it('end where a person has ended them, and come again', () => {
    const schedules = [{ cron: '0 2 * * *', timeZone: 'UTC', durationSeconds: 3_600 }];
    const endedMs = BEGIN + 2 * HOUR + 10 * MINUTE;
    const recurrence = recurrenceOf(schedules)?.since(BEGIN + 3 * HOUR);
    expect(windowAt({ recurrence }, endedMs)).toBeUndefined();
    expect(windowFrom({ recurrence }, endedMs)?.startsMs).toBe(BEGIN + DAY + 2 * HOUR);
  });

  it('have the reason of the one that begins first', () => {
    const schedules = [{ cron: '0 2 * * *', timeZone: 'UTC', durationSeconds: 3_600, reason: 'Backup' }];
    const maintenance = { startsMs: BEGIN + 150 * MINUTE, endsMs: BEGIN + 4 * HOUR, reason: 'Upgrade' };
    const window = windowAt({ maintenance, recurrence: recurrenceOf(schedules) }, BEGIN + 2 * HOUR);
    expect(window).toEqual({ startsMs: BEGIN + 2 * HOUR, endsMs: BEGIN + 4 * HOUR, reason: 'Backup' });
  });
});

describe('too many windows in a row', () => {
  it.each([
    ['0 0 * * *', 86_400, true],
    ['0 0 * * *', 86_340, false],
    ['* * * * *', 60, true],
    ['0 0 * * 6,0', 86_400, false],
    ['*/5 8 * * *', 300, false],
    ['*/5 8-17 * * *', 300, true],
    ['0 2 * * 1', 604_800, true],
    ['0 2 * * 1', 604_740, false],
    ['*/2 * * * *', 60, false],
  ])('%s for %i s: %s', (cron, durationSeconds, expected) => {
    expect(hasLongRow([{ cron, timeZone: 'UTC', durationSeconds }])).toBe(expected);
  });

  it('are found in several schedules together', () => {
    const even = { cron: '*/2 * * * *', timeZone: 'UTC', durationSeconds: 60 };
    expect(hasLongRow([even, { ...even, cron: '1-59/2 * * * *' }])).toBe(true);
    expect(hasLongRow([even, { ...even, cron: '1-9/2 * * * *' }])).toBe(false);
  });
});
