// A cancel closes a run that neither succeeded nor failed, and the time of a run by the clock of its sender.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat, applySuspendedBeat, type Beat } from '../../../src/domain/beat.ts';
import type { LiveState } from '../../../src/domain/monitor.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const at = (ms: number) => new Date(ms).toISOString();
const anyId = fc.option(fc.constantFrom('a', 'b', 'c'), { nil: undefined });
const anyBeats = fc.array(
  fc.record({ kind: fc.constantFrom('start' as const, 'success' as const, 'fail' as const), runId: anyId }),
  { maxLength: 12 },
);

/** The state after those beats, one in a second, the last one before NOW. */
const beaten = (timing: ReturnType<typeof timingOf>, beats: readonly Beat[]): LiveState =>
  beats.reduce(
    (live, beat, index) => applyBeat(timing, live, [], beat, NOW - (beats.length - index) * SECOND).live,
    liveOf(),
  );

describe('a cancel', () => {
  const running = timingOf({ maxRuntimeMs: 10 * SECOND });
  const started = beaten(running, [{ kind: 'start', runId: 'a' }]);

  it('a cancel closes the run of its id, and no wake looks for its end', () => {
    const { live } = applyBeat(running, started, [], { kind: 'cancel', runId: 'a' }, NOW);
    expect(started.wakeMs).toBe(NOW + 9 * SECOND);
    expect(live).toEqual({
      ...started,
      lastSequence: 2,
      openRuns: [],
      wakeMs: live.deadlineMs && NOW - SECOND + MINUTE,
    });
    const nowMs = NOW + 30 * SECOND;
    const later = wakeMonitor(running, live, [], { nowMs, horizonMs: nowMs, outages: [] });
    expect(later.transitions).toEqual([]);
  });

  it('a cancel with another id closes nothing, and is as a log', () => {
    const cancel = applyBeat(running, started, [], { kind: 'cancel', runId: 'b' }, NOW);
    expect(cancel).toEqual(applyBeat(running, started, [], { kind: 'log' }, NOW));
  });

  it('a cancel closes the runs that an end would close, and changes nothing else', () => {
    fc.assert(
      fc.property(anyTiming, anyBeats, anyId, (timing, beats, runId) => {
        const live = beaten(timing, beats);
        const end = applyBeat(timing, live, [], { kind: 'success', runId }, NOW);
        const cancel = applyBeat(timing, live, [], { kind: 'cancel', runId }, NOW);
        expect(cancel).toMatchObject({ late: false, transitions: [] });
        expect(cancel.durationSeconds).toBeUndefined();
        const { wakeMs: _, ...rest } = cancel.live;
        const { wakeMs: _before, ...before } = live;
        expect(rest).toEqual({ ...before, openRuns: end.live.openRuns, lastSequence: end.sequence });
      }),
    );
  });

  it('a cancel that is refused in a suspension closes its run and moves no deadline', () => {
    const live = applySuspendedBeat(running, started, { kind: 'cancel', runId: 'a' }, NOW);
    expect(live).toMatchObject({ openRuns: [], deadlineMs: started.deadlineMs, gapBroken: false });
    expect(applySuspendedBeat(running, started, { kind: 'cancel', runId: 'b' }, NOW)).toBe(started);
    expect(applySuspendedBeat(running, started, { kind: 'start', runId: 'a' }, NOW)).toBe(started);
  });
});

describe('the duration of a run', () => {
  const durationOf = (start: string | undefined, end: string | undefined) => {
    const timing = timingOf();
    const begun = applyBeat(timing, liveOf(), [], { kind: 'start', observedAt: start }, NOW - MINUTE);
    const ended = applyBeat(timing, begun.live, [], { kind: 'success', observedAt: end }, NOW);
    expect(ended.live.lastDurationMs).toBe((ended.durationSeconds ?? 0) * 1000);
    return ended.durationSeconds;
  };

  it('the duration is the difference of observedAt where start and end state it, else of the arrivals', () => {
    expect(durationOf(at(NOW - 3 * HOUR), at(NOW - HOUR))).toBe(7_200);
    expect(durationOf(at(NOW), at(NOW))).toBe(0);
    expect(durationOf(at(NOW - HOUR), undefined)).toBe(60);
    expect(durationOf(undefined, at(NOW))).toBe(60);
  });

  it('an end that its sender saw before the start has the duration of the arrivals', () => {
    expect(durationOf(at(NOW), at(NOW - 1))).toBe(60);
  });

  it('a clock of the sender moves neither the limit of the run nor the deadline', () => {
    const timing = timingOf({ maxRuntimeMs: HOUR });
    const plain = applyBeat(timing, liveOf(), [], { kind: 'start' }, NOW).live;
    const { live } = applyBeat(timing, liveOf(), [], { kind: 'start', observedAt: at(NOW - 9 * HOUR) }, NOW);
    const [run] = live.openRuns;
    expect({ ...live, openRuns: [{ ...run, observedMs: undefined }] }).toEqual(plain);
  });
});
