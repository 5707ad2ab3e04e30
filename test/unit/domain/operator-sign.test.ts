// Monitors that an operator beats: judged up to its last sign, and its absence is an outage for them. With simulated jobs whose
// operator dies and comes back: one that lives never alerts, and one that is dead is found in time.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat } from '../../../src/domain/beat.ts';
import type { Incident } from '../../../src/domain/incident.ts';
import type { LiveState, Outage, Timing } from '../../../src/domain/monitor.ts';
import {
  momentOf,
  nextLook,
  type OperatorSigns,
  SILENT_MS,
  signsAt,
  silenceOf,
} from '../../../src/domain/operator-sign.ts';
import { mergeOutages } from '../../../src/domain/silence.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const DAY = 24 * HOUR;
const anyOutages = fc
  .array(
    fc.record({ from: fc.integer({ min: -7_200, max: 7_200 }), length: fc.integer({ min: 21, max: 3_600 }) }),
    {
      maxLength: 4,
    },
  )
  .map((drawn) =>
    mergeOutages(
      drawn.map(({ from, length }) => ({
        fromMs: NOW + from * SECOND,
        toMs: NOW + (from + length) * SECOND,
      })),
    ),
  );
/** A state after beats and with a run. */
const anyLive = (timing: Timing) =>
  fc
    .record({ start: fc.integer({ min: -7_200, max: 0 }), beats: fc.integer({ min: 0, max: 6 }) })
    .map(({ start, beats }): LiveState => {
      let live = liveOf();
      for (let beat = 0; beat <= beats; beat += 1) {
        live = applyBeat(
          timing,
          live,
          [],
          { kind: 'success' },
          NOW + (start - 100 * (beats - beat)) * SECOND,
        ).live;
      }
      return applyBeat(timing, live, [], { kind: 'start' }, NOW + start * SECOND).live;
    });
const anyMonitor = anyTiming.chain((timing) => anyLive(timing).map((live) => ({ timing, live })));

/** What opened, without the entries that name outages, and without ids. */
const openings = ({ transitions }: ReturnType<typeof wakeMonitor>) =>
  transitions.map(({ incident }) => [incident.kind, incident.deadlineMs]);

describe('judging', () => {
  it('with a sign of this moment the monitor is judged as if the service had been away meanwhile', () => {
    fc.assert(
      fc.property(anyMonitor, anyOutages, anyOutages, fc.nat(20_000), (monitor, service, own, later) => {
        const nowMs = NOW + later * SECOND;
        const plain = { nowMs, horizonMs: nowMs, outages: mergeOutages([...service, ...own]) };
        const beaten = momentOf(
          { nowMs, horizonMs: nowMs, outages: service },
          { signMs: nowMs, outages: own },
        );
        // A run is another matter: the operator tells of its end before its next sign.
        const { timing } = monitor;
        const live = { ...monitor.live, openRuns: [] };
        const expected = wakeMonitor(timing, live, [], plain);
        const result = wakeMonitor(timing, live, [], beaten);
        expect({ live: result.live, opened: openings(result) }).toEqual({
          live: expected.live,
          opened: openings(expected),
        });
        expect(result.waitsForOperator).toBeUndefined();
      }),
    );
  });

  it('nothing opens that fell due after its last sign, and what is due is looked at later, not at once', () => {
    fc.assert(
      fc.property(
        anyMonitor,
        anyOutages,
        fc.option(fc.integer({ min: -7_200, max: 20_000 }), { nil: undefined }),
        fc.nat(20_000),
        ({ timing, live }, outages, signed, later) => {
          const nowMs = NOW + later * SECOND;
          const signMs = signed === undefined ? undefined : Math.min(nowMs, NOW + signed * SECOND);
          const moment = momentOf({ nowMs, horizonMs: nowMs - SECOND, outages }, { signMs, outages: [] });
          const result = wakeMonitor(timing, live, [], moment);
          for (const [, deadlineMs = Number.POSITIVE_INFINITY] of openings(result))
            expect(deadlineMs).toBeLessThanOrEqual(signMs ?? Number.NEGATIVE_INFINITY);
          const { wakeMs } = result.live;
          if (wakeMs !== undefined) expect(wakeMs).toBeGreaterThan(moment.service.horizonMs);
          if (result.waitsForOperator) expect((wakeMs ?? 0) - nowMs).toBeLessThanOrEqual(MINUTE);
        },
      ),
    );
  });

  it('a monitor that waits for an operator is looked at more and more rarely, at least once a minute', () => {
    const waits = [1, 10, 19, 21, 60, 300, 3_600, 86_400].map(
      (seconds) => (nextLook({ signMs: NOW - seconds * SECOND, outages: [] }, NOW) - NOW) / SECOND,
    );
    expect(waits).toEqual([5, 3, 3, 15, 15, 30, 60, 60]);
    expect(nextLook({ outages: [] }, NOW)).toBe(NOW + MINUTE);
    // The clock was set back: the sign is ahead.
    expect(nextLook({ signMs: NOW + DAY, outages: [] }, NOW)).toBe(NOW + 15 * SECOND);
  });
});

describe('what is known of a moment in the past', () => {
  const signs: OperatorSigns = {
    signMs: NOW,
    outages: [{ fromMs: NOW - 2 * HOUR, toMs: NOW - HOUR }],
  };
  it.each([
    ['before a silence', -3 * HOUR, { isSilent: false }, 0],
    ['in a silence', -HOUR - MINUTE, { isSilent: true, sinceMs: NOW - 2 * HOUR }, 0],
    ['just after its last sign', -2 * HOUR + SILENT_MS, { isSilent: false }, 0],
    ['after a silence', -HOUR, { isSilent: false }, 1],
    ['now', 0, { isSilent: false }, 1],
  ])('%s', (_when, agoMs, silence, count) => {
    const then = signsAt(signs, NOW + agoMs);
    expect(silenceOf(then, NOW + agoMs)).toEqual(silence);
    expect(then.outages).toHaveLength(count);
  });

  it('an operator that never gave a sign is silent at all times', () => {
    expect(silenceOf(signsAt({ outages: [] }, NOW), NOW)).toEqual({ isSilent: true, sinceMs: undefined });
  });
});

interface Life {
  intervalMs: number;
  graceMs: number;
  /** How long each operator leads, and how long none does then. */
  terms: readonly { leadsMs: number; awayMs: number }[];
  /** When the job dies. */
  diesMs: number;
}

/**
 * A job that runs each interval, and an operator that sends a beat for each run while it leads. One that comes back first sends
 * what it has missed, then gives its sign. A sweeper looks at each wake. Returns the incidents, and when each was opened.
 */
function simulate({ intervalMs, graceMs, terms, diesMs }: Life, untilMs: number) {
  const timing = timingOf({ intervalMs, graceMs, missedBeatsToOpen: 1 });
  const opened: { atMs: number; incident: Incident }[] = [];
  const outages: Outage[] = [];
  let live = liveOf();
  let incidents: Incident[] = [];
  let signMs = 0;
  let seenMs = 0;
  const beatAt = (atMs: number) => {
    live = applyBeat(timing, live, incidents, { kind: 'success' }, atMs).live;
    incidents = [];
  };
  /** Of runs that ended since it looked last. */
  const lastRun = (atMs: number) => Math.floor(Math.min(atMs, diesMs) / intervalMs) * intervalMs;
  const isLedAt = (atMs: number) => {
    let fromMs = 0;
    for (const { leadsMs, awayMs } of terms) {
      if (atMs < fromMs + leadsMs) return true;
      fromMs += leadsMs + awayMs;
      if (atMs < fromMs) return false;
    }
    return true;
  };
  for (let atMs = 0; atMs <= untilMs; atMs += 5 * SECOND) {
    if (isLedAt(atMs)) {
      const runMs = lastRun(atMs);
      if (runMs > seenMs || atMs === 0) beatAt(atMs);
      seenMs = runMs;
      if (atMs - signMs > SILENT_MS) outages.push({ fromMs: signMs, toMs: atMs });
      signMs = atMs;
    }
    if (live.wakeMs === undefined || live.wakeMs > atMs) continue;
    const moment = momentOf({ nowMs: atMs, horizonMs: atMs, outages: [] }, { signMs, outages });
    const result = wakeMonitor(timing, live, incidents, moment);
    live = result.live;
    for (const { incident, isNew } of result.transitions) {
      if (isNew) opened.push({ atMs, incident });
      incidents = [incident];
    }
  }
  return { opened, outages, isLedAt };
}

const anyLife = fc.record({
  intervalMs: fc.integer({ min: 1, max: 24 }).map((count) => count * 5 * MINUTE),
  graceMs: fc.integer({ min: 1, max: 20 }).map((count) => count * MINUTE),
  terms: fc.array(
    fc.record({
      leadsMs: fc.integer({ min: 1, max: 480 }).map((count) => count * MINUTE),
      // Also short ones, of a new leader.
      awayMs: fc.oneof(
        fc.integer({ min: 1, max: 5 }).map((count) => count * 5 * SECOND),
        fc.integer({ min: 1, max: 300 }).map((count) => count * MINUTE),
      ),
    }),
    { maxLength: 5 },
  ),
  diesMs: fc.integer({ min: 60, max: 1_440 }).map((minutes) => minutes * MINUTE),
});

describe('a job whose operator dies and comes back', () => {
  it('does not alert while it lives, and is found after its death within the bound', () => {
    fc.assert(
      fc.property(anyLife, (life) => {
        const { opened, outages } = simulate(life, life.diesMs + 3 * DAY);
        const { intervalMs, graceMs, diesMs } = life;
        const [first] = opened;
        const lastMs = Math.floor(diesMs / intervalMs) * intervalMs;
        expect(first?.incident.kind).toBe('missed_deadline');
        expect(first?.atMs).toBeGreaterThan(lastMs + intervalMs);
        const awayMs = outages.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
        // The last beat may have come at the end of an outage. A look comes a minute late at most.
        const latestMs = lastMs + 2 * (intervalMs + graceMs) + awayMs + 2 * MINUTE;
        expect(first?.atMs).toBeLessThanOrEqual(latestMs);
        expect(opened).toHaveLength(1);
      }),
      { numRuns: 60 },
    );
  });

  it('is not found while no operator is back', () => {
    const life = {
      intervalMs: HOUR,
      graceMs: MINUTE,
      terms: [{ leadsMs: 2 * HOUR, awayMs: 30 * DAY }],
      diesMs: 2 * HOUR,
    };
    expect(simulate(life, 20 * DAY).opened).toEqual([]);
  });
});
