// Timings and live states for the tests of the domain, fixed and arbitrary.
import fc from 'fast-check';
import { recurrenceOf } from '../../../src/domain/maintenance.ts';
import { type LiveState, newLiveState, type Timing } from '../../../src/domain/monitor.ts';

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
/** Any moment will do. */
export const NOW = Date.UTC(2026, 5, 1, 12);

/** One minute of interval, one of grace. */
export function timingOf(more: Partial<Timing> = {}): Timing {
  return {
    lifecycle: 'active',
    intervalMs: MINUTE,
    graceMs: MINUTE,
    awaitFirstBeat: true,
    recoveryBeats: 1,
    missedBeatsToOpen: 1,
    minimumIntervalMs: MINUTE,
    ...more,
  };
}

export function liveOf(more: Partial<LiveState> = {}): LiveState {
  return { ...newLiveState(), ...more };
}

/** A schedule that fires each `everyMs`. */
export function everySchedule(everyMs: number) {
  return { nextAfter: (afterMs: number) => (Math.floor(afterMs / everyMs) + 1) * everyMs };
}

const duration = fc.integer({ min: 1, max: 7_200 }).map((seconds) => seconds * SECOND);

/** Configured, scheduled and learned cadences, with and without a window and a longest run. */
export const anyTiming: fc.Arbitrary<Timing> = fc
  .record({
    cadence: fc.oneof(
      duration.map((intervalMs) => ({ intervalMs })),
      duration.map((everyMs) => ({ intervalMs: undefined, schedule: everySchedule(everyMs) })),
      fc.constant({ intervalMs: undefined }),
    ),
    graceMs: duration,
    missedBeatsToOpen: fc.integer({ min: 1, max: 10 }),
    recoveryBeats: fc.integer({ min: 1, max: 10 }),
    maxRuntimeMs: fc.option(duration, { nil: undefined }),
    maintenance: fc.option(
      fc
        .record({ from: fc.integer({ min: -7_200, max: 7_200 }), length: duration })
        .map(({ from, length }) => ({
          startsMs: NOW + from * SECOND,
          endsMs: NOW + from * SECOND + length,
        })),
      { nil: undefined },
    ),
  })
  .map(({ cadence, ...more }) => timingOf({ ...cadence, ...more }));

const RECURRING = [
  { cron: '0 * * * *', timeZone: 'UTC', durationSeconds: 600 },
  { cron: '10 */2 * * *', timeZone: 'UTC', durationSeconds: 5_400 },
];

/** Those, with a maintenance schedule. */
export const anyRecurring: fc.Arbitrary<Timing> = fc
  .record({ timing: anyTiming, schedule: fc.constantFrom(...RECURRING) })
  .map(({ timing, schedule }) => ({ ...timing, recurrence: recurrenceOf([schedule]) }));
