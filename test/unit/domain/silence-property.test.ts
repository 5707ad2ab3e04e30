// A simulated year of a living sender, which never alerts, and its death, which is found in time: for each kind of
// monitor, with random outages, late sweeps, and outages that become known late.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Timing } from '../../../src/domain/monitor.ts';
import { compileSchedule } from '../../../src/domain/schedule.ts';
import { type Fate, type Habit, latestDeadline, Sender } from './silence-senders.ts';
import { MOST_LATE_MS, Random, randomOutages, Simulation } from './silence-simulation.ts';
import { HOUR, MINUTE, SECOND, timingOf } from './timing.ts';

const DAY = 24 * HOUR;
/** A year with both changes of the clocks. */
const BEGIN = Date.UTC(2026, 0, 1);

interface Kind {
  habit: (random: Random) => Omit<Habit, 'fate'>;
  /** Somebody pauses the monitor, changes it and sets windows. */
  isDisturbed?: boolean;
  /** Simulated years for each sort of sender; cron times take long to compute. */
  years?: number;
}

function intervalHabit(random: Random, more: Partial<Timing> = {}): Omit<Habit, 'fate'> {
  const periodMs = random.scaled(10 * MINUTE, 20 * DAY);
  const graceMs = random.scaled(10 * SECOND, periodMs);
  const missedBeatsToOpen = random.pick([1, 1, 1, 2, 3]);
  // Several beats in an interval leave a stored wake where it is, so that sweepers come too early.
  const intervalMs = periodMs * random.pick([1, 1, 2.5, 7]);
  return { periodMs, timing: timingOf({ intervalMs, graceMs, missedBeatsToOpen, ...more }) };
}

const SCHEDULES = [
  { cron: '0 */6 * * *', timeZone: 'UTC', everyMs: 6 * HOUR },
  { cron: '30 2 * * *', timeZone: 'Europe/Berlin', everyMs: DAY },
  { cron: '0 3 * * 1', timeZone: 'America/New_York', everyMs: 7 * DAY },
  { cron: '15 1 1 * *', timeZone: 'Australia/Lord_Howe', everyMs: 28 * DAY },
] as const;

const KINDS: Record<string, Kind> = {
  'an interval': { habit: (random) => intervalHabit(random) },
  'a cron schedule': {
    years: 8,
    habit: (random) => {
      const { everyMs, ...spec } = random.pick(SCHEDULES);
      const graceMs = random.scaled(10 * SECOND, everyMs / 2);
      const missedBeatsToOpen = random.pick([1, 1, 2]);
      const schedule = compileSchedule(spec);
      return { timing: timingOf({ intervalMs: undefined, schedule, graceMs, missedBeatsToOpen }) };
    },
  },
  'a learned cadence': {
    habit: (random) => {
      const periodMs = random.scaled(10 * MINUTE, 10 * DAY);
      const graceMs = random.scaled(MINUTE, periodMs);
      // The cadence may be that of the shortest gap. A beat takes up to 8 s.
      return {
        periodMs,
        jitterMs: Math.floor(graceMs / 5),
        timing: timingOf({ intervalMs: undefined, graceMs }),
      };
    },
  },
  'an interval, with runs': {
    habit: (random) => intervalHabit(random, { maxRuntimeMs: random.scaled(MINUTE, 2 * DAY) }),
  },
  'an interval, with maintenance, pauses and changes': {
    habit: (random) => intervalHabit(random),
    isDisturbed: true,
  },
};

function simulateYear({ habit: habitOf, isDisturbed }: Kind, fate: Fate, seed: number) {
  const random = new Random(seed);
  const habit = { ...habitOf(random), fate };
  const diesMs = BEGIN + Math.min(365 * DAY, 3_000 * (habit.periodMs ?? DAY));
  const outages = randomOutages(random, BEGIN, diesMs + 30 * DAY);
  const simulation = new Simulation(habit.timing, outages, random);
  const sender = new Sender(simulation, outages, random, habit, BEGIN);
  sender.liveUntil(diesMs, isDisturbed ? BEGIN : undefined);
  const whileAlive = simulation.incidents;
  sender.die();
  const { timing, live } = simulation;
  const sinceMs = Math.max(live.anchorMs ?? 0, simulation.refusedMs, sender.lastActionMs);
  const boundMs = latestDeadline(timing, live, sinceMs, outages);
  simulation.runUntil(Number.POSITIVE_INFINITY);
  const found = simulation.incidents.find(({ kind }) => kind === 'missed_deadline');
  return {
    whileAlive,
    found,
    boundMs,
    isRunning: live.deadlineMs !== undefined,
    foundByMs: simulation.whenHorizonReaches(boundMs) + MOST_LATE_MS,
  };
}

describe.each(Object.entries(KINDS))('a year of a monitor with %s', (_, kind) => {
  it.each([
    ['loses one in a silence', 'lost'],
    ['sends them again until the outage is over', 'retried'],
    ['has them all refused', 'excused'],
  ] as const)(
    'a sender whose beats meet outages, and who %s, never alerts while it lives and is found when it is dead',
    (_words, fate) => {
      fc.assert(
        fc.property(fc.integer({ min: 0, max: 2 ** 32 - 1 }), (seed) => {
          const { whileAlive, found, boundMs, foundByMs, isRunning } = simulateYear(kind, fate, seed);
          expect(whileAlive).toEqual([]);
          expect(isRunning).toBe(true);
          expect(found?.deadlineMs).toBeLessThanOrEqual(boundMs);
          expect(found?.openedMs).toBeLessThanOrEqual(foundByMs);
        }),
        { numRuns: kind.years ?? 50, endOnFailure: true },
      );
    },
  );
});
