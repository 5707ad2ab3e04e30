// The cron times of monitors of CronJobs: those at which Kubernetes starts a Job, also where clocks change.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deadlineAfter } from '../../../src/domain/deadline.ts';
import { compileKubernetesSchedule } from '../../../src/domain/kubernetes-schedule.ts';
import { type MonitorConfiguration, newLiveState, toTiming } from '../../../src/domain/monitor.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** Of one schedule. */
const MOST_TIMES = 200;

/** The first times after a moment. */
function timesAfter(cron: string, timeZone: string, after: string, count: number): string[] {
  const schedule = compileKubernetesSchedule({ cron, timeZone });
  const times: string[] = [];
  for (let atMs = Date.parse(after); times.length < count; ) {
    atMs = schedule?.nextAfter(atMs) ?? Number.NaN;
    times.push(new Date(atMs).toISOString().replace(':00.000Z', 'Z'));
  }
  return times;
}

describe('the times at which Kubernetes starts a Job', () => {
  // What robfig/cron v3.0.1, built with Go 1.26, returns for the same questions.
  it.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28T00:00Z', ['03-28T01:30', '03-30T00:30', '03-31T00:30']],
    ['Europe/Berlin', '30 2 * * *', '2026-10-24T12:00Z', ['10-25T00:30', '10-25T01:30', '10-26T01:30']],
    ['America/New_York', '15 1-3 * * *', '2026-03-08T00:00Z', ['03-08T06:15', '03-08T07:15', '03-09T05:15']],
    // A step is no star: either day counts.
    ['Europe/Berlin', '*/2 2 */10 * 1', '2026-02-20T12:00Z', ['02-21T01:00', '02-21T01:02', '02-21T01:04']],
    // Midnight does not exist there, and a whole Friday is skipped.
    ['Africa/Cairo', '0 5 * * 5', '2026-04-20T00:00Z', ['05-01T02:00', '05-08T02:00', '05-15T02:00']],
    ['Africa/Cairo', '30 0 * * *', '2026-04-22T00:00Z', ['04-22T22:30', '04-24T21:30', '04-25T21:30']],
    ['America/Santiago', '0 1 * * 0', '2026-09-01T00:00Z', ['09-06T04:00', '09-13T04:00']],
    ['America/Havana', '30 0 * * *', '2026-03-07T12:00Z', ['03-09T04:30', '03-10T04:30']],
    // The clock goes forward by half an hour.
    ['Australia/Lord_Howe', '0 3 * * *', '2026-10-02T00:00Z', ['10-02T16:30', '10-04T16:00', '10-05T16:00']],
    ['Australia/Lord_Howe', '45 1 * * *', '2026-04-03T00:00Z', ['04-03T14:45', '04-04T14:45', '04-04T15:15']],
  ])('in %s are for "%s" after %s those of its library', (timeZone, cron, after, times) => {
    const year = after.slice(0, 4);
    expect(timesAfter(cron, timeZone, after, times.length)).toEqual(times.map((at) => `${year}-${at}Z`));
  });

  it('are none for a day that does not come within five years', () => {
    const schedule = compileKubernetesSchedule({ cron: '0 0 31 2 *', timeZone: 'UTC' });
    expect(schedule?.nextAfter(Date.UTC(2026, 0, 1))).toBeUndefined();
  });

  it.each([
    ...['0 2 * *', '60 2 * * *', '0 2 * * 7', '0 2 L * *', '0 2 * * 1#2', '5-1 2 * * *', '*/0 2 * * *'],
    ...['1-2-3 2 * * *', '1/2/3 2 * * *', 'x 2 * * *'],
  ])('are not known for "%s", which Kubernetes refuses', (cron) => {
    expect(compileKubernetesSchedule({ cron, timeZone: 'UTC' })).toBeUndefined();
  });

  it('are not known in a zone that nobody knows', () => {
    expect(compileKubernetesSchedule({ cron: '0 2 * * *', timeZone: 'Mars/Olympus' })).toBeUndefined();
  });
});

interface LocalMinute {
  atMs: number;
  /** Minute, hour, day, month, weekday. */
  fields: number[];
}

/** Each minute of the days around a change of the clocks, and what the clock on the wall shows. */
function minutesAround(timeZone: string, changeMs: number): LocalMinute[] {
  const format = new Intl.DateTimeFormat('en-GB', {
    ...{ timeZone, hourCycle: 'h23', minute: '2-digit', hour: '2-digit' },
    ...{ day: '2-digit', month: '2-digit', year: 'numeric' },
  });
  const minutes: LocalMinute[] = [];
  for (let atMs = changeMs - DAY_MS; atMs < changeMs + 3 * DAY_MS; atMs += MINUTE_MS) {
    const [day = 1, month = 1, year = 1, hour = 0, minute = 0] = (
      format.format(atMs).match(/\d+/g) ?? []
    ).map(Number);
    const weekday = new Date(Date.UTC(year, month - 1, day)).getUTCDay();
    minutes.push({ atMs, fields: [minute, hour, day, month, weekday] });
  }
  return minutes;
}

// Midnight exists in each of them, and the clocks change by an hour: where they do not, the table above has what happens.
const CHANGES: [timeZone: string, at: string][] = [
  ['Europe/Berlin', '2025-03-30'],
  ['Europe/Berlin', '2026-10-25'],
  ['Europe/London', '2027-03-28'],
  ['Europe/London', '2024-10-27'],
  ['America/New_York', '2026-03-08'],
  ['America/New_York', '2025-11-02'],
  ['America/St_Johns', '2026-03-08'],
  ['Australia/Sydney', '2026-04-05'],
  ['Australia/Sydney', '2025-10-05'],
  ['Pacific/Auckland', '2026-09-27'],
  ['Asia/Kolkata', '2026-03-29'],
];

const field = (least: number, greatest: number) =>
  fc.oneof(
    fc.constant({ text: '*', has: () => true }),
    fc.integer({ min: least, max: greatest }).map((one) => ({
      text: String(one),
      has: (value: number) => value === one,
    })),
    fc
      .tuple(fc.integer({ min: least, max: greatest }), fc.integer({ min: least, max: greatest }))
      .map(([one, other]) => {
        const [from, to] = [Math.min(one, other), Math.max(one, other)];
        return { text: `${from}-${to}`, has: (value: number) => value >= from && value <= to };
      }),
    fc.integer({ min: 2, max: 20 }).map((step) => ({
      text: `*/${step}`,
      has: (value: number) => (value - least) % step === 0,
    })),
  );

it('a Job starts at each minute whose local time the fields name: never one that is skipped, twice one that comes twice', () => {
  const windows = CHANGES.map(([timeZone, at]) => ({
    timeZone,
    minutes: minutesAround(timeZone, Date.parse(at)),
  }));
  let [some, none] = [0, 0];
  const anyFields = fc.tuple(
    field(0, 59),
    field(0, 4),
    field(1, 31),
    fc.constantFrom('*', '1-12'),
    field(0, 6),
  );
  fc.assert(
    fc.property(fc.constantFrom(...windows), anyFields, fc.nat(DAY_MS), (window, drawn, laterMs) => {
      const { timeZone, minutes } = window;
      const [minute, hour, day, month, weekday] = drawn;
      const cron = [minute.text, hour.text, day.text, month, weekday.text].join(' ');
      const eitherDay = day.text !== '*' && weekday.text !== '*';
      const isDue = ({ fields: [m = 0, h = 0, d = 0, , w = 0] }: LocalMinute) => {
        const isDay = eitherDay ? day.has(d) || weekday.has(w) : day.has(d) && weekday.has(w);
        return minute.has(m) && hour.has(h) && isDay;
      };
      const afterMs = (minutes[0]?.atMs ?? 0) + laterMs;
      const endMs = minutes.at(-1)?.atMs ?? 0;
      const due = minutes.filter((one) => one.atMs > afterMs && isDue(one)).map(({ atMs }) => atMs);
      const wanted = due.slice(0, MOST_TIMES);
      const schedule = compileKubernetesSchedule({ cron, timeZone });
      const found: number[] = [];
      let atMs = schedule?.nextAfter(afterMs);
      while (atMs !== undefined && atMs <= endMs && found.length < MOST_TIMES) {
        found.push(atMs);
        atMs = schedule?.nextAfter(atMs);
      }
      expect(found).toEqual(wanted);
      if (wanted.length > 0) some += 1;
      else none += 1;
    }),
    { numRuns: 400 },
  );
  // Both have been looked at.
  expect(Math.min(some, none)).toBeGreaterThan(0);
});

describe('the deadline of a monitor', () => {
  const configuration: MonitorConfiguration = {
    ...{ name: 'Job', labels: {}, graceSeconds: 300, awaitFirstBeat: false },
    ...{ recoveryBeats: 1, missedBeatsToOpen: 1, measurements: {} },
    schedule: { cron: '30 2 * * *', timeZone: 'Europe/Berlin' },
  };
  // The night in which there is no half past two.
  const afterMs = Date.parse('2026-03-28T02:00Z');
  const deadlineOf = (beatenBy?: string) => {
    const state = { lifecycle: 'active' as const, ...(beatenBy === undefined ? {} : { beatenBy }) };
    const deadlineMs = deadlineAfter(toTiming(configuration, state, 60_000), newLiveState(), afterMs);
    return new Date(deadlineMs ?? 0).toISOString();
  };

  it('that an operator beats is never one of a run that Kubernetes skips', () => {
    expect(deadlineOf('beatkeeper/release@1')).toBe('2026-03-30T00:35:00.000Z');
  });

  it('that beats itself is one of the first minute after the gap', () => {
    expect(deadlineOf()).toBe('2026-03-29T01:05:00.000Z');
  });
});
