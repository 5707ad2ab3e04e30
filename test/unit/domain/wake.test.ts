import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat } from '../../../src/domain/beat.ts';
import { deadlineAfter, nextWake, startClock } from '../../../src/domain/deadline.ts';
import { healthOf } from '../../../src/domain/health.ts';
import { type Incident, openIncident } from '../../../src/domain/incident.ts';
import type { LiveState, Outage, Timing } from '../../../src/domain/monitor.ts';
import { mergeOutages } from '../../../src/domain/silence.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { anyRecurring, anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const at = (nowMs: number, outages: Outage[] = [], horizonMs = nowMs) => ({ nowMs, horizonMs, outages });
const beaten = (timing = timingOf(), beatMs = NOW): LiveState =>
  applyBeat(timing, liveOf(), [], { kind: 'success' }, beatMs).live;
const kindsOf = ({ transitions }: ReturnType<typeof wakeMonitor>) =>
  transitions.map(({ incident }) => incident.kind);

describe('silence', () => {
  it('silence makes a monitor late, and then down', () => {
    const timing = timingOf();
    const live = beaten();
    const late = wakeMonitor(timing, live, [], at(NOW + MINUTE));
    expect(late.transitions).toEqual([]);
    expect(healthOf(timing, late.live, [], NOW + MINUTE)).toBe('late');
    const down = wakeMonitor(timing, late.live, [], at(NOW + 2 * MINUTE));
    expect(down.transitions).toMatchObject([{ isNew: true, incident: { deadlineMs: NOW + 2 * MINUTE } }]);
    expect(down.live).toMatchObject({ openIncidents: 1, deadlineMs: undefined, wakeMs: undefined });
    expect(healthOf(timing, down.live, [down.transitions[0]?.incident as Incident], NOW)).toBe('down');
  });

  it('a wake opens no incident for a deadline after the horizon', () => {
    const { transitions, live } = wakeMonitor(
      timingOf(),
      beaten(),
      [],
      at(NOW + HOUR, [], NOW + 2 * MINUTE - 1),
    );
    expect(transitions).toEqual([]);
    expect(live.wakeMs).toBe(NOW + 2 * MINUTE);
  });

  it('an incident opens after as many missed deadlines as the monitor allows, each an interval after the last', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 600 }),
        (missedBeatsToOpen, steps) => {
          const timing = timingOf({ missedBeatsToOpen });
          const opensMs = NOW + 2 * MINUTE + (missedBeatsToOpen - 1) * MINUTE;
          // Woken at any pace, or only once at the end.
          let live = beaten(timing);
          let opened: number | undefined;
          for (let nowMs = NOW; nowMs <= opensMs + HOUR; nowMs += steps * SECOND) {
            const woken = wakeMonitor(timing, live, [], at(nowMs));
            live = woken.live;
            if (woken.transitions.length > 0) opened ??= nowMs;
            if (opened !== undefined) break;
          }
          const isLast = opened === undefined;
          const result = isLast ? wakeMonitor(timing, live, [], at(opensMs + 2 * HOUR)) : undefined;
          if (result) expect(kindsOf(result)).toEqual(['missed_deadline']);
          else expect((opened ?? 0) - opensMs).toBeGreaterThanOrEqual(0);
        },
      ),
    );
  });

  it('a missed deadline counts on a recovering incident, reopens it and opens no second one', () => {
    const timing = timingOf({ recoveryBeats: 3 });
    const opening = {
      incidentId: 'inc_1',
      kind: 'missed_deadline',
      severity: 'critical',
      summary: 's',
    } as const;
    const { incident } = openIncident(opening, NOW - HOUR);
    const beat = applyBeat(timing, liveOf({ openIncidents: 1 }), [incident], { kind: 'success' }, NOW);
    const recovering = beat.transitions[0]?.incident as Incident;
    expect(recovering.state).toBe('recovering');
    const again = wakeMonitor(timing, beat.live, [recovering], at(NOW + 2 * MINUTE));
    expect(again.transitions).toMatchObject([
      { isNew: false, incident: { state: 'open', violationCount: 2 }, event: { type: 'incident.reopened' } },
    ]);
    expect(again.live.openIncidents).toBe(1);
  });

  it('a wake changes nothing on a monitor that is not active', () => {
    const paused = wakeMonitor(timingOf({ lifecycle: 'paused' }), beaten(), [], at(NOW + HOUR));
    expect(paused).toMatchObject({ transitions: [], live: { wakeMs: undefined } });
  });

  it('no incident opens in a window, and the deadline moves to the end of the window', () => {
    const maintenance = { startsMs: NOW + MINUTE, endsMs: NOW + HOUR };
    const live = { ...beaten(), deadlineMs: NOW + 30 * SECOND };
    const { transitions, live: after } = wakeMonitor(
      timingOf({ maintenance }),
      live,
      [],
      at(NOW + 2 * MINUTE),
    );
    expect(transitions).toEqual([]);
    expect(after.deadlineMs).toBe(NOW + HOUR);
  });
});

describe('a run', () => {
  const timing = timingOf({ maxRuntimeMs: 30 * SECOND });
  const started = applyBeat(timing, beaten(timing), [], { kind: 'start', runId: 'a' }, NOW).live;

  it('a run is overdue after its longest time, once', () => {
    expect(wakeMonitor(timing, started, [], at(NOW + 29 * SECOND)).transitions).toEqual([]);
    const overdue = wakeMonitor(timing, started, [], at(NOW + 30 * SECOND));
    expect(kindsOf(overdue)).toEqual(['overdue_run']);
    const [transition] = overdue.transitions;
    const again = wakeMonitor(
      timing,
      overdue.live,
      [transition?.incident as Incident],
      at(NOW + 31 * SECOND),
    );
    expect(again.transitions).toEqual([]);
  });

  it('a run that overlaps an outage is never overdue: its end may be lost', () => {
    const outage = { fromMs: NOW + 10 * SECOND, toMs: NOW + 15 * SECOND };
    const { transitions, live } = wakeMonitor(timing, started, [], at(NOW + 59 * SECOND, [outage]));
    expect(transitions).toEqual([]);
    expect(live.openRuns).toEqual([{ runId: 'a', startedMs: NOW, mayHaveEnded: true }]);
  });
});

describe('an outage of our own', () => {
  it('an outage also moves a deadline that follows an earlier missed one in the same wake', () => {
    const timing = timingOf({ missedBeatsToOpen: 2 });
    const live = beaten(timing);
    // The first deadline passed just before the outage; the second one is inside it.
    const outage = { fromMs: NOW + 2 * MINUTE + SECOND, toMs: NOW + HOUR };
    const { transitions, live: after } = wakeMonitor(timing, live, [], at(NOW + HOUR, [outage]));
    expect(transitions).toEqual([]);
    expect(after).toMatchObject({ missedCount: 0 });
    expect(after.deadlineMs).toBeGreaterThan(NOW + HOUR);
  });

  it('an outage of any length opens no incident for a sender that is back within one grace of its end', () => {
    fc.assert(
      fc.property(
        anyTiming.filter(({ maintenance }) => maintenance === undefined),
        fc.integer({ min: 4, max: 100_000 }),
        fc.integer({ min: 0, max: 3_600 }),
        (timing, length, before) => {
          const live = startClock(timing, liveOf({ cadenceMs: MINUTE }), NOW - before * SECOND);
          const clocked = { ...live, wakeMs: nextWake(timing, live, NOW - before * SECOND) };
          // The beat was not missed before the outage began.
          fc.pre(live.deadlineMs !== undefined && live.deadlineMs - timing.graceMs >= NOW);
          const toMs = NOW + length * SECOND;
          const outages = [{ fromMs: NOW, toMs }];
          const woken = wakeMonitor(timing, clocked, [], at(toMs + timing.graceMs - 1, outages));
          expect(woken.transitions).toEqual([]);
        },
      ),
    );
  });
});

describe('any monitor at any moment', () => {
  const anyLive = (timing: Timing, seconds: { beat: number; runs: readonly number[] }): LiveState => {
    const live = startClock(
      timing,
      liveOf({ cadenceMs: HOUR, firstBeatMs: NOW }),
      NOW - seconds.beat * SECOND,
    );
    const openRuns = seconds.runs.map((ago, index) => {
      const startedMs = NOW - ago * SECOND;
      const { maxRuntimeMs } = timing;
      const dueMs = maxRuntimeMs === undefined ? undefined : startedMs + maxRuntimeMs;
      return { runId: String(index), startedMs, dueMs };
    });
    return { ...live, openRuns };
  };

  it('the next wake is after the horizon or never, and a second wake at the same moment changes nothing', () => {
    const seconds = fc.record({
      beat: fc.integer({ min: 0, max: 20_000 }),
      runs: fc.array(fc.integer({ min: 0, max: 20_000 }), { maxLength: 4 }),
    });
    const anyOutage = fc
      .tuple(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 4, max: 5_000 }))
      .map(([ago, length]) => ({ fromMs: NOW - ago * SECOND - length * SECOND, toMs: NOW - ago * SECOND }));
    fc.assert(
      fc.property(
        fc.oneof(anyTiming, anyRecurring),
        seconds,
        fc.array(anyOutage, { maxLength: 3 }),
        fc.integer({ min: 0, max: 2 }),
        (timing, ago, outages, lag) => {
          const moment = at(NOW, mergeOutages(outages), NOW - lag * SECOND);
          const first = wakeMonitor(timing, anyLive(timing, ago), [], moment);
          const { wakeMs } = first.live;
          // Otherwise the sweep would claim it again and again.
          if (wakeMs !== undefined) expect(wakeMs).toBeGreaterThan(moment.horizonMs);
          const open = first.transitions.map(({ incident }) => incident);
          const second = wakeMonitor(timing, first.live, open, moment);
          expect(second.transitions).toEqual([]);
          expect(second.live).toEqual(first.live);
          for (const { deadlineMs } of open) expect(deadlineMs).toBeLessThanOrEqual(moment.horizonMs);
          expect(first.live.openIncidents).toBe(open.length);
        },
      ),
    );
  });

  it('a monitor whose beats are in time is never down', () => {
    fc.assert(
      fc.property(
        fc.oneof(anyTiming, anyRecurring),
        fc.array(fc.integer({ min: 0, max: 10_000 }), { maxLength: 20 }),
        (timing, steps) => {
          let nowMs = NOW;
          let live = beaten(timing, nowMs);
          for (const step of steps) {
            const dueMs = deadlineAfter(timing, live, nowMs) ?? nowMs + HOUR;
            // Any moment up to the deadline, with a wake just before the beat.
            nowMs += Math.min(step * SECOND, Math.max(0, dueMs - nowMs - 1));
            const woken = wakeMonitor(timing, live, [], at(nowMs));
            expect(kindsOf(woken)).toEqual([]);
            live = applyBeat(timing, woken.live, [], { kind: 'success' }, nowMs).live;
          }
        },
      ),
    );
  });
});
