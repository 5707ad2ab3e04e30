// What time and beats do to a monitor while its organization is suspended, and after its return.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat } from '../../../src/domain/beat.ts';
import { decideBeat } from '../../../src/domain/beat-decision.ts';
import type { BeatInput } from '../../../src/domain/beat-input.ts';
import { deadlineAfter, refitClock, startClock } from '../../../src/domain/deadline.ts';
import { healthOf } from '../../../src/domain/health.ts';
import { changeLifecycle, takeOver } from '../../../src/domain/lifecycle.ts';
import { type LiveState, newLiveState, type Timing } from '../../../src/domain/monitor.ts';
import { findPlan } from '../../../src/domain/plan.ts';
import { restingSince, wakeMonitor, wakeSuspended } from '../../../src/domain/wake.ts';
import { refit } from '../../../src/service/monitors/monitor-configuration.ts';
import { anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const at = (nowMs: number) => ({ nowMs, horizonMs: nowMs, outages: [] });
const beaten = (timing = timingOf(), beatMs = NOW): LiveState =>
  applyBeat(timing, liveOf(), [], { kind: 'success' }, beatMs).live;
const kindsOf = ({ transitions }: ReturnType<typeof wakeMonitor>) =>
  transitions.map(({ incident }) => incident.kind);

describe('a suspended organization', () => {
  const refuseSuspended = (timing: Timing, live: LiveState, beat: BeatInput, nowMs: number) => {
    const plan = findPlan('scale');
    const monitor = {
      timing,
      live,
      plan,
      serviceState: 'canceled',
      incidents: [],
      returnedMs: undefined,
    } as const;
    const decision = decideBeat(monitor, beat, nowMs);
    if (!('problem' in decision)) throw new Error('The beat was taken.');
    return decision.live;
  };

  it('a deadline that passes rests without a wake; at the return a full interval plus grace starts', () => {
    const timing = timingOf();
    const resting = wakeSuspended(timing, beaten(), NOW + HOUR);
    expect(resting).toMatchObject({
      deadlineMs: undefined,
      wakeMs: undefined,
      restsSinceMs: NOW + 2 * MINUTE,
    });
    expect(healthOf(timing, resting, [], NOW + HOUR)).toBe('up');
    const returned = wakeMonitor(timing, resting, [], at(NOW + 9 * HOUR));
    expect(returned.transitions).toEqual([]);
    expect(returned.live).toMatchObject({
      anchorMs: NOW + 9 * HOUR,
      deadlineMs: NOW + 9 * HOUR + 2 * MINUTE,
      wakeMs: NOW + 9 * HOUR + MINUTE,
      restsSinceMs: undefined,
    });
    expect(kindsOf(wakeMonitor(timing, returned.live, [], at(NOW + 9 * HOUR + 2 * MINUTE)))).toEqual([
      'missed_deadline',
    ]);
  });

  it('a rest that no sweeper has seen is the one that it will find, and no deadline that passed after the return is one', () => {
    fc.assert(
      fc.property(anyTiming, fc.nat(8_000), fc.nat(8_000), (timing, until, later) => {
        const live = startClock(timing, beaten(timing), NOW);
        const untilMs = NOW + until * SECOND;
        const { restsSinceMs } = wakeSuspended(timing, live, untilMs);
        const suspended = { nowMs: untilMs, isSuspended: true };
        expect(restingSince(timing, live, suspended)).toBe(restsSinceMs);
        const returned = { nowMs: untilMs + later * SECOND, returnedMs: untilMs, isSuspended: false };
        expect(restingSince(timing, live, returned)).toBe(restsSinceMs);
        const served = { nowMs: untilMs, isSuspended: false };
        expect(restingSince(timing, live, served)).toBeUndefined();
      }),
    );
    const resting = wakeSuspended(timingOf(), beaten(), NOW + HOUR);
    expect(restingSince(timingOf(), resting, { nowMs: NOW + 2 * HOUR, isSuspended: false })).toBe(
      NOW + 2 * MINUTE,
    );
  });

  /** Whatever may happen to a monitor that rests, before a sweeper has seen that the organization returned. */
  const MEANWHILE: Record<string, (timing: Timing, live: LiveState, nowMs: number) => LiveState> = {
    nothing: (_timing, live) => live,
    'another wake': (timing, live, nowMs) => wakeSuspended(timing, live, nowMs),
    'a beat that is refused': (timing, live, nowMs) =>
      refuseSuspended(timing, live, { kind: 'success' }, nowMs) ?? live,
    'a log': (timing, live, nowMs) => applyBeat(timing, live, [], { kind: 'log' }, nowMs).live,
    'a start': (timing, live, nowMs) => applyBeat(timing, live, [], { kind: 'start' }, nowMs).live,
    'a success': (timing, live, nowMs) => applyBeat(timing, live, [], { kind: 'success' }, nowMs).live,
    'a longer grace': (timing, live, nowMs) =>
      refit(
        { before: timing, after: timing },
        { deadline: true, runs: true },
        { live, isMissed: false, nowMs },
      ),
    'an object that is made again': (timing, live, nowMs) => takeOver(timing, live, nowMs),
    'a window and its end': (timing, live, nowMs) => {
      const window = { startsMs: nowMs, endsMs: nowMs + HOUR };
      const within = changeLifecycle(timing, live, 'enter_maintenance', { nowMs, window });
      return changeLifecycle(within.timing, within.live, 'exit_maintenance', { nowMs }).live;
    },
    'a pause': (timing, live, nowMs) => {
      const paused = changeLifecycle(timing, live, 'pause', { nowMs });
      expect(paused.live.restsSinceMs).toBeUndefined();
      return changeLifecycle(paused.timing, paused.live, 'resume', { nowMs }).live;
    },
  };

  it('a rest is never a deadline that was missed, and no clock stands for ever after it, whatever comes', () => {
    const names = fc.array(fc.constantFrom(...Object.keys(MEANWHILE)), { maxLength: 4 });
    fc.assert(
      fc.property(anyTiming, names, fc.integer({ min: 1, max: 5_000 }), (any, happens, seconds) => {
        const timing = { ...any, maintenance: undefined };
        let nowMs = NOW + 24 * HOUR;
        let live = wakeSuspended(timing, startClock(timing, beaten(timing), NOW), nowMs);
        fc.pre(live.restsSinceMs !== undefined);
        for (const name of happens) {
          if (live.restsSinceMs === undefined) break;
          nowMs += seconds * SECOND;
          live = (MEANWHILE[name] as NonNullable<(typeof MEANWHILE)[string]>)(timing, live, nowMs);
        }
        // A sweeper finds it: by its rest, or by its wake. Then the job has a full interval plus grace.
        if (live.restsSinceMs === undefined) expect(live.wakeMs).toBeGreaterThan(nowMs);
        const { live: found, transitions } = wakeMonitor(timing, live, [], at(nowMs));
        expect(transitions).toEqual([]);
        expect(found.restsSinceMs).toBeUndefined();
        expect(found.deadlineMs).toBe(deadlineAfter(timing, found, nowMs));
        const { transitions: missed } = wakeMonitor(timing, found, [], at(nowMs + 1_000 * HOUR));
        expect(missed.map(({ incident }) => incident.kind)).toContain('missed_deadline');
      }),
    );
  });

  it('a deadline that passed while no sweeper looked is missed no more than one that a sweeper saw', () => {
    const timing = timingOf({ maxRuntimeMs: HOUR });
    const started = applyBeat(timing, beaten(timing), [], { kind: 'start' }, NOW).live;
    const [returnedMs, nowMs] = [NOW + 5 * HOUR, NOW + 9 * HOUR];
    const found = wakeMonitor(timing, started, [], { ...at(nowMs), returnedMs });
    expect(found.transitions).toEqual([]);
    expect(found.live).toMatchObject({
      deadlineMs: nowMs + 2 * MINUTE,
      wakeMs: nowMs + MINUTE,
      openRuns: [],
      gapBroken: true,
    });
    const missed = wakeMonitor(timing, found.live, [], { ...at(nowMs + 2 * MINUTE), returnedMs });
    expect(kindsOf(missed)).toEqual(['missed_deadline']);
  });

  it('whether or not a sweeper looks during a suspension, the same is found after it', () => {
    const hours = fc.integer({ min: 1, max: 100 });
    fc.assert(
      fc.property(anyTiming, hours, hours, fc.boolean(), (timing, until, later, hasRun) => {
        const clocked = startClock(timing, beaten(timing), NOW);
        const live = hasRun ? applyBeat(timing, clocked, [], { kind: 'start' }, NOW).live : clocked;
        const returnedMs = NOW + until * HOUR;
        const moment = { ...at(returnedMs + later * MINUTE), returnedMs };
        const seen = wakeMonitor(timing, wakeSuspended(timing, live, returnedMs), [], moment);
        const unseen = wakeMonitor(timing, live, [], moment);
        expect(kindsOf(unseen)).toEqual(kindsOf(seen));
        expect(unseen.live).toEqual(seen.live);
      }),
    );
  });

  it('a deadline after the return is missed as any other; so is one of a return that is still to come', () => {
    const timing = timingOf();
    const missed = (returnedMs: number) =>
      kindsOf(wakeMonitor(timing, beaten(timing), [], { ...at(NOW + 2 * MINUTE), returnedMs }));
    expect(missed(NOW + 2 * MINUTE - 1)).toEqual(['missed_deadline']);
    expect(missed(NOW + 2 * MINUTE)).toEqual([]);
    // The clock was read before the return was committed, by less than a minute.
    expect(missed(NOW + 3 * MINUTE)).toEqual([]);
    expect(missed(NOW + 3 * MINUTE + 1)).toEqual(['missed_deadline']);
  });

  it('a monitor is marked late after the return, whenever it was woken before', () => {
    const timing = timingOf({ intervalMs: HOUR, graceMs: 10 * MINUTE });
    const woken = wakeSuspended(timing, beaten(timing), NOW + 5 * MINUTE);
    expect(woken.wakeMs).toBe(NOW + HOUR);
    expect(wakeSuspended(timing, woken, NOW + HOUR).wakeMs).toBe(NOW + HOUR + 10 * MINUTE);
  });

  it('a run that became overdue meanwhile is left to the deadline', () => {
    const timing = timingOf({ intervalMs: HOUR, maxRuntimeMs: MINUTE });
    const live = applyBeat(timing, beaten(timing), [], { kind: 'start' }, NOW).live;
    const suspended = wakeSuspended(timing, live, NOW + 2 * MINUTE);
    expect(suspended.openRuns).toEqual([]);
    // A longer runtime counts the runs that are open anew.
    const changed = { ...timing, maxRuntimeMs: 2 * MINUTE };
    const refitted = refitClock(changed, suspended, NOW + 3 * MINUTE);
    expect(wakeMonitor(changed, refitted, [], at(NOW + 3 * MINUTE)).transitions).toEqual([]);
  });

  it('an end that is refused ends its run', () => {
    const timing = timingOf({ intervalMs: 10 * HOUR, maxRuntimeMs: 6 * HOUR });
    const start = (live: LiveState, runId: string) =>
      applyBeat(timing, live, [], { kind: 'start', runId }, NOW).live;
    const live = start(start(beaten(timing), 'a'), 'b');
    const refused = refuseSuspended(timing, live, { kind: 'fail', runId: 'a' }, NOW + 2 * HOUR);
    expect(refused?.openRuns).toMatchObject([{ runId: 'b' }]);
    expect(refused?.lastSequence).toBe(live.lastSequence);
  });

  it.each(['wakes alone', 'refused beats'])('teaches no cadence: %s', (how) => {
    const timing = timingOf({ intervalMs: undefined, graceMs: MINUTE });
    let live: LiveState = newLiveState();
    let nowMs = NOW;
    const succeed = () => {
      live = applyBeat(timing, live, [], { kind: 'success' }, nowMs).live;
    };
    for (let beat = 0; beat < 5; beat += 1, nowMs += HOUR) succeed();
    expect(live.cadenceMs).toBe(HOUR);
    for (let hour = 0; hour < 7 * 24; hour += 1, nowMs += HOUR + MINUTE) {
      if (how === 'wakes alone') live = wakeSuspended(timing, live, nowMs);
      else if (hour === 3) live = refuseSuspended(timing, live, { kind: 'success' }, nowMs) ?? live;
    }
    succeed();
    expect(live).toMatchObject({ cadenceMs: HOUR, gaps: [HOUR, HOUR, HOUR, HOUR], gapBroken: false });
    expect(live.deadlineMs).toBe(nowMs + HOUR + MINUTE);
    nowMs += HOUR;
    succeed();
    expect(live.gaps).toHaveLength(5);
  });

  it('a beat that is refused again changes nothing where no deadline runs', () => {
    const timing = timingOf({ intervalMs: undefined });
    const refused = refuseSuspended(timing, beaten(timing), { kind: 'success' }, NOW);
    expect(refused?.gapBroken).toBe(true);
    expect(refuseSuspended(timing, refused as LiveState, { kind: 'success' }, NOW + MINUTE)).toBe(refused);
  });

  it('a wake lies in the future, and deadlines stay unless they pass and rest', () => {
    fc.assert(
      fc.property(anyTiming, fc.integer({ min: 0, max: 72 }), (timing, hours) => {
        const live = startClock(timing, beaten(timing), NOW);
        const nowMs = NOW + hours * HOUR;
        const { wakeMs = nowMs + 1, deadlineMs, restsSinceMs } = wakeSuspended(timing, live, nowMs);
        expect(wakeMs).toBeGreaterThan(nowMs);
        const hasPassed = (live.deadlineMs ?? nowMs + 1) <= nowMs;
        expect(deadlineMs).toBe(hasPassed ? undefined : live.deadlineMs);
        expect(restsSinceMs).toBe(hasPassed ? live.deadlineMs : undefined);
      }),
    );
  });
});

it('a suspended monitor forgets what time would make graver once it is due, and is woken for it once', () => {
  const timing = timingOf();
  const live = { ...beaten(timing), deadlineMs: undefined, escalatesMs: NOW + MINUTE };
  const before = wakeSuspended(timing, live, NOW);
  expect(before).toMatchObject({ escalatesMs: NOW + MINUTE, wakeMs: NOW + MINUTE });
  const after = wakeSuspended(timing, before, NOW + MINUTE);
  expect(after.escalatesMs).toBeUndefined();
  expect(after.wakeMs).toBeUndefined();
});

describe('a beat that comes after a suspension that no sweeper saw', () => {
  const DAY = 24 * HOUR;
  const accept = (
    timing: Timing,
    live: LiveState,
    beat: BeatInput,
    at: { nowMs: number; returnedMs?: number },
  ) => {
    const { nowMs, returnedMs } = at;
    const monitor = { timing, live, plan: findPlan('scale'), incidents: [], returnedMs };
    const decision = decideBeat({ ...monitor, serviceState: 'active' }, beat, nowMs);
    if ('problem' in decision) throw decision.problem;
    return decision.result;
  };
  const learning = timingOf({ intervalMs: undefined, graceMs: MINUTE });
  /** So many successes, an hour apart. The last one came at the moment. */
  const succeed = (count: number) => {
    let live = newLiveState();
    let nowMs = NOW;
    for (let beat = 0; beat < count; beat += 1) {
      nowMs += HOUR;
      live = accept(learning, live, { kind: 'success' }, { nowMs }).live;
    }
    return { live, nowMs };
  };

  it.each([
    ['has learned its cadence', 5],
    ['is still learning it', 4],
  ])('teaches no cadence where the monitor %s; the next gap does', (_, count) => {
    const { live: before, nowMs } = succeed(count);
    const returnedMs = nowMs + 10 * DAY;
    const first = accept(learning, before, { kind: 'success' }, { nowMs: returnedMs + SECOND, returnedMs });
    expect(first.live).toMatchObject({ gaps: before.gaps, gapBroken: false });
    expect(first.live.cadenceMs).toBe(before.cadenceMs);
    const nextMs = returnedMs + SECOND + HOUR;
    const { live } = accept(learning, first.live, { kind: 'success' }, { nowMs: nextMs, returnedMs });
    expect(live).toMatchObject({
      gaps: [...before.gaps, HOUR],
      cadenceMs: HOUR,
      deadlineMs: nextMs + HOUR + MINUTE,
    });
  });

  it.each(['start', 'log', 'fail'] as const)(
    'teaches no cadence where a %s comes before the success',
    (kind) => {
      const { live: before, nowMs } = succeed(4);
      const returnedMs = nowMs + 10 * DAY;
      const first = accept(learning, before, { kind }, { nowMs: returnedMs + SECOND, returnedMs });
      const then = { nowMs: returnedMs + MINUTE, returnedMs };
      expect(accept(learning, first.live, { kind: 'success' }, then).live.gaps).toEqual(before.gaps);
    },
  );

  it('is late where the deadline passed after the return, and not where it passed before', () => {
    const timing = timingOf();
    const deadlineMs = NOW + 2 * MINUTE;
    const isLate = (returnedMs: number) =>
      accept(timing, beaten(timing), { kind: 'success' }, { nowMs: NOW + HOUR, returnedMs }).late;
    expect(isLate(deadlineMs)).toBe(false);
    expect(isLate(deadlineMs - 1)).toBe(true);
  });

  it('does what it would do had a sweeper looked during the suspension', () => {
    const hours = fc.integer({ min: 1, max: 100 });
    const kinds = fc.constantFrom('success', 'fail', 'start', 'log');
    fc.assert(
      fc.property(anyTiming, hours, kinds, fc.boolean(), (timing, until, kind, hasRun) => {
        const clocked = startClock(timing, beaten(timing), NOW);
        const live = hasRun ? applyBeat(timing, clocked, [], { kind: 'start' }, NOW).live : clocked;
        const returnedMs = NOW + until * HOUR;
        const moment = { nowMs: returnedMs + MINUTE, returnedMs };
        const seen = accept(timing, wakeSuspended(timing, live, returnedMs), { kind }, moment);
        const unseen = accept(timing, live, { kind }, moment);
        // The wake that is stored may come earlier, and an incident has an id of its own.
        const compared = ({ live, late, durationSeconds, transitions }: typeof seen) => [
          { ...live, wakeMs: undefined },
          late,
          durationSeconds,
          transitions.map(({ incident: { incidentId: _, ...incident } }) => incident),
        ];
        expect(compared(unseen)).toEqual(compared(seen));
      }),
    );
  });
});
