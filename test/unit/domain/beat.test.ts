import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat, applyRefusedBeat, type Beat, countOpen } from '../../../src/domain/beat.ts';
import { type Incident, openIncident } from '../../../src/domain/incident.ts';
import { outOfWindow, windowAt } from '../../../src/domain/maintenance.ts';
import type { LiveState, Timing } from '../../../src/domain/monitor.ts';
import {
  anyRecurring,
  anyTiming,
  everySchedule,
  HOUR,
  liveOf,
  MINUTE,
  NOW,
  SECOND,
  timingOf,
} from './timing.ts';

const started = liveOf({
  anchorMs: NOW - MINUTE,
  deadlineMs: NOW + MINUTE,
  firstBeatMs: NOW - HOUR,
  lastSequence: 4,
});
const apply = (beat: Beat, live = started, timing = timingOf(), incidents: Incident[] = []) =>
  applyBeat(timing, live, incidents, beat, NOW);

describe('the kinds of beats (docs/contract/beats.md)', () => {
  it('a success moves the deadline and closes its run', () => {
    const live = { ...started, openRuns: [{ runId: 'a', startedMs: NOW - 30 * SECOND }] };
    const result = apply({ kind: 'success', runId: 'a' }, live);
    expect(result).toMatchObject({ sequence: 5, late: false, durationSeconds: 30, transitions: [] });
    expect(result.live).toMatchObject({ deadlineMs: NOW + 2 * MINUTE, lastBeatMs: NOW, openRuns: [] });
  });

  it('a fail moves the deadline; the first one opens an incident, the next one counts on it', () => {
    const first = apply({ kind: 'fail', exitStatus: 3 });
    expect(first.live).toMatchObject({ deadlineMs: NOW + 2 * MINUTE, openIncidents: 1 });
    const [opening] = first.transitions;
    expect(opening).toMatchObject({
      isNew: true,
      incident: { kind: 'reported_failure', severity: 'critical' },
    });
    if (!opening) throw new Error('no incident opened');
    const second = apply({ kind: 'fail' }, first.live, timingOf(), [opening.incident]);
    expect(second.transitions).toMatchObject([
      { isNew: false, incident: { violationCount: 2, state: 'open' } },
    ]);
    expect(second.live.openIncidents).toBe(1);
  });

  it('a start moves no deadline, but starts the clock of a monitor that has none', () => {
    const timing = timingOf({ maxRuntimeMs: 10 * SECOND });
    expect(apply({ kind: 'start' }, started, timing).live).toMatchObject({
      deadlineMs: started.deadlineMs,
      wakeMs: NOW + 10 * SECOND,
      openRuns: [{ startedMs: NOW, dueMs: NOW + 10 * SECOND }],
    });
    expect(apply({ kind: 'start' }, liveOf(), timing).live).toMatchObject({
      deadlineMs: NOW + 2 * MINUTE,
      firstBeatMs: NOW,
    });
  });

  it('a log changes nothing but the sequence', () => {
    expect(apply({ kind: 'log' }).live).toEqual({ ...started, lastSequence: 5 });
  });

  it('a refused beat moves a running deadline and starts none', () => {
    expect(applyRefusedBeat(timingOf(), started, NOW)).toMatchObject({
      deadlineMs: NOW + 2 * MINUTE,
      lastSequence: 4,
    });
    expect(applyRefusedBeat(timingOf(), liveOf(), NOW)).toEqual(liveOf());
  });

  it('a success after the deadline is late, and no incident opens', () => {
    const result = apply({ kind: 'success' }, { ...started, deadlineMs: NOW - 1 });
    expect(result).toMatchObject({ late: true, transitions: [] });
  });

  it('a success after the deadline is late, whether the sweeper has counted a miss or opened an incident', () => {
    const patient = timingOf({ missedBeatsToOpen: 3 });
    expect(apply({ kind: 'success' }, { ...started, missedCount: 1 }, patient).late).toBe(true);
    const { incident } = openIncident(
      { kind: 'missed_deadline', severity: 'critical', summary: 'No beat.' },
      NOW - SECOND,
    );
    const down = { ...started, deadlineMs: undefined, openIncidents: 1 };
    const slowly = timingOf({ recoveryBeats: 2 });
    const first = apply({ kind: 'success' }, down, slowly, [incident]);
    expect(first.late).toBe(true);
    const recovering = first.transitions.map((transition) => transition.incident);
    expect(apply({ kind: 'success' }, first.live, slowly, recovering).late).toBe(false);
    const paused = timingOf({ lifecycle: 'paused' });
    expect(apply({ kind: 'success' }, down, paused, [incident]).late).toBe(false);
  });

  it('no incident opens in a window or a pause, and a success recovers an open one even then', () => {
    const window = timingOf({ maintenance: { startsMs: NOW, endsMs: NOW + HOUR } });
    expect(apply({ kind: 'fail' }, started, window).transitions).toEqual([]);
    const [opening] = apply({ kind: 'fail' }).transitions;
    if (!opening) throw new Error('no incident opened');
    const live = { ...started, openIncidents: 1 };
    const paused = timingOf({ lifecycle: 'paused' });
    const result = apply({ kind: 'success' }, live, paused, [opening.incident]);
    expect(result.transitions).toMatchObject([{ incident: { state: 'recovered' } }]);
    expect(result.live).toMatchObject({ openIncidents: 0, deadlineMs: undefined, wakeMs: undefined });
  });

  it('fifty open runs are tied to their ends; one more start drops the oldest run', () => {
    let live = started;
    for (let run = 0; run <= 50; run += 1) live = apply({ kind: 'start', runId: `run-${run}` }, live).live;
    expect(apply({ kind: 'success', runId: 'run-0' }, live).durationSeconds).toBeUndefined();
    for (let run = 1; run <= 50; run += 1) {
      const result = apply({ kind: 'success', runId: `run-${run}` }, live);
      expect(result.durationSeconds).toBe(0);
      live = result.live;
    }
    expect(live.openRuns).toEqual([]);
  });

  it('the duration of the newest run stays until the next run ends whose start is known', () => {
    const openRuns = [{ runId: 'a', startedMs: NOW - 30 * SECOND }];
    const ended = apply({ kind: 'fail', runId: 'a' }, { ...started, openRuns, lastDurationMs: 1 }).live;
    expect(ended.lastDurationMs).toBe(30 * SECOND);
    for (const kind of ['success', 'fail', 'start', 'log'] as const)
      expect(apply({ kind }, ended).live.lastDurationMs).toBe(30 * SECOND);
  });

  it('an end without an id closes every run, and an end with an unknown id closes none', () => {
    const openRuns = [
      { runId: 'a', startedMs: NOW - MINUTE },
      { runId: 'b', startedMs: NOW - SECOND },
    ];
    expect(apply({ kind: 'success' }, { ...started, openRuns })).toMatchObject({
      durationSeconds: 1,
      live: { openRuns: [] },
    });
    expect(apply({ kind: 'success', runId: 'c' }, { ...started, openRuns }).live.openRuns).toEqual(openRuns);
  });
});

describe('learned cadence', () => {
  const timing = timingOf({ intervalMs: undefined });
  const beatEvery = (live: LiveState, gaps: number[]) => {
    let atMs = live.lastSuccessMs ?? NOW;
    let state = live;
    for (const gap of gaps) {
      atMs += gap;
      state = applyBeat(timing, state, [], { kind: 'success' }, atMs).live;
    }
    return state;
  };

  it('a learning monitor has no deadline before five beats, and then one that follows the gaps', () => {
    const four = beatEvery(liveOf(), [0, 5 * MINUTE, 5 * MINUTE, 5 * MINUTE]);
    expect(four).toMatchObject({ deadlineMs: undefined, cadenceMs: undefined });
    const five = beatEvery(four, [5 * MINUTE]);
    expect(five.cadenceMs).toBe(5 * MINUTE);
    expect(five.deadlineMs).toBe((five.lastSuccessMs ?? 0) + 6 * MINUTE);
  });

  it('a learned cadence ignores a broken gap and is at least the minimum interval', () => {
    const learned = beatEvery(liveOf(), [0, SECOND, SECOND, SECOND, SECOND]);
    expect(learned.cadenceMs).toBe(MINUTE);
    const broken = beatEvery({ ...learned, gapBroken: true }, [10 * HOUR]);
    expect(broken).toMatchObject({ cadenceMs: MINUTE, gapBroken: false, gaps: learned.gaps });
  });

  it('a learned cadence ignores the gap of a clock that was set back, and learns from the next gap', () => {
    const learned = beatEvery(liveOf(), [0, 5 * MINUTE, 5 * MINUTE, 5 * MINUTE, 5 * MINUTE]);
    const back = beatEvery(learned, [-1_000 * HOUR]);
    expect(back).toMatchObject({ cadenceMs: 5 * MINUTE, gaps: learned.gaps });
    expect(beatEvery(back, [5 * MINUTE]).gaps).toEqual([...learned.gaps, 5 * MINUTE]);
    const openRuns = [{ startedMs: NOW + HOUR }];
    expect(apply({ kind: 'success' }, { ...started, openRuns })).toMatchObject({ durationSeconds: 0 });
  });
});

describe('any sequence of beats', () => {
  const anyBeat = fc.record({
    beat: fc.record(
      {
        kind: fc.constantFrom('success', 'fail', 'start', 'log'),
        runId: fc.constantFrom('a', 'b', 'c'),
      },
      { requiredKeys: ['kind'] },
    ) as fc.Arbitrary<Beat>,
    afterMs: fc.integer({ min: 0, max: 7_200_000 }),
  });

  it('any sequence of beats has sequences without a gap, the right count of open incidents and a wake in time', () => {
    fc.assert(
      fc.property(
        fc.oneof(anyTiming, anyRecurring),
        fc.array(anyBeat, { maxLength: 40 }),
        (timing, beats) => {
          let live = liveOf();
          let open: Incident[] = [];
          let nowMs = NOW - HOUR;
          for (const [index, { beat, afterMs }] of beats.entries()) {
            nowMs += afterMs;
            const result = applyBeat(timing, live, open, beat, nowMs);
            expect(result.sequence).toBe(index + 1);
            const changed = new Map(
              result.transitions.map(({ incident }) => [incident.incidentId, incident]),
            );
            open = [
              ...open.map((incident) => changed.get(incident.incidentId) ?? incident),
              ...result.transitions.filter(({ isNew }) => isNew).map(({ incident }) => incident),
            ].filter(({ state }) => state === 'open' || state === 'recovering');
            expect(new Set(open.map(({ kind }) => kind)).size).toBe(open.length);
            expect(result.live.openIncidents).toBe(open.length);
            expect(result.live.openRuns.length).toBeLessThanOrEqual(50);
            live = result.live;
            // Inside a window, the next wake for a run is the end of the window.
            const moments = [live.deadlineMs, ...live.openRuns.map(({ dueMs }) => dueMs)]
              .filter((moment) => moment !== undefined)
              .map((moment) => outOfWindow(moment, timing));
            if (moments.length > 0 && !windowAt(timing, nowMs) && beat.kind !== 'log') {
              expect(live.wakeMs).toBeLessThanOrEqual(Math.min(...moments));
            }
          }
        },
      ),
    );
  });

  it('the count of open incidents is never negative', () => {
    expect(countOpen(0, apply({ kind: 'success' }).transitions)).toBe(0);
  });

  it('a start moves a deadline that runs where an operator tells of every end, and else it moves none', () => {
    const running = applyBeat(timingOf(), liveOf(), [], { kind: 'success' }, NOW).live;
    const atMs = NOW + MINUTE;
    const startOf = (timing: Timing) =>
      applyBeat(timing, running, [], { kind: 'start', runId: 'r' }, atMs).live;
    expect(startOf(timingOf()).deadlineMs).toBe(running.deadlineMs);
    const timing = timingOf({ startsMove: true });
    const moved = startOf(timing);
    expect(moved.deadlineMs).toBe(atMs + 2 * MINUTE);
    // Another one, before any end, hides no run that hangs; a cancel is no end.
    const canceled = applyBeat(timing, moved, [], { kind: 'cancel', runId: 'r' }, atMs + 1000).live;
    const second = applyBeat(timing, canceled, [], { kind: 'start', runId: 's' }, atMs + 2000).live;
    expect(second.deadlineMs).toBe(moved.deadlineMs);
    const ended = applyBeat(timing, second, [], { kind: 'fail', runId: 's' }, atMs + 3000).live;
    expect(applyBeat(timing, ended, [], { kind: 'start', runId: 't' }, atMs + 4000).live.deadlineMs).toBe(
      atMs + 4000 + 2 * MINUTE,
    );
  });

  it('a job whose cluster has another clock is expected at the slot after the one for which it started', () => {
    const timing = timingOf({
      ...{ intervalMs: undefined, schedule: everySchedule(HOUR), graceMs: 5 * MINUTE },
      startsMove: true,
    });
    const anyRun = fc.record({
      skewMs: fc.integer({ min: -30 * SECOND, max: 60 * SECOND }),
      // Longer than the grace, or ended before the cron time.
      lengthMs: fc.oneof(fc.integer({ min: 0, max: 30 * SECOND }), fc.integer({ min: 0, max: 50 * MINUTE })),
    });
    fc.assert(
      fc.property(fc.array(anyRun, { minLength: 1, maxLength: 10 }), (runs) => {
        let live = applyBeat(timing, liveOf(), [], { kind: 'success' }, NOW + MINUTE).live;
        for (const [index, { skewMs, lengthMs }] of runs.entries()) {
          const slotMs = NOW + (index + 1) * HOUR;
          const [runId, startMs] = [`run-${index}`, slotMs + skewMs];
          const beats = [
            { kind: 'start' as const, atMs: startMs },
            { kind: 'success' as const, atMs: startMs + lengthMs },
          ];
          for (const { kind, atMs } of beats) {
            expect(live.deadlineMs).toBeGreaterThan(atMs);
            live = applyBeat(timing, live, [], { kind, runId }, atMs).live;
            // Neither the slot that has just been met, nor a later one than the next.
            expect(live.deadlineMs).toBe(slotMs + HOUR + 5 * MINUTE);
          }
        }
      }),
    );
  });

  it('a start just before a cron time is no other one where no operator beats the monitor', () => {
    const timing = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR), graceMs: 5 * MINUTE });
    const { live } = applyBeat(timing, liveOf(), [], { kind: 'start' }, NOW + HOUR - SECOND);
    expect(live.deadlineMs).toBe(NOW + HOUR + 5 * MINUTE);
  });

  it('a clock of the database that was set back by more keeps nobody waiting for the time before', () => {
    const timing = timingOf({
      ...{ intervalMs: undefined, schedule: everySchedule(HOUR), graceMs: 5 * MINUTE },
      startsMove: true,
    });
    const begun = applyBeat(timing, liveOf(), [], { kind: 'start', runId: 'r' }, NOW + HOUR - SECOND).live;
    expect(begun.deadlineMs).toBe(NOW + 2 * HOUR + 5 * MINUTE);
    const ended = applyBeat(timing, begun, [], { kind: 'success', runId: 'r' }, NOW + MINUTE).live;
    expect(ended.deadlineMs).toBe(NOW + HOUR + 5 * MINUTE);
  });
});
