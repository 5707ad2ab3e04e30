import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat } from '../../../src/domain/beat.ts';
import { refitRuns } from '../../../src/domain/deadline.ts';
import { changeLifecycle, LIFECYCLE_ACTIONS, type LifecycleAction } from '../../../src/domain/lifecycle.ts';
import type { LiveState, Outage, Timing } from '../../../src/domain/monitor.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

/** The table of docs/contract/monitors.md. */
const TABLE: Record<LifecycleAction, { from: Timing['lifecycle'][]; to: Timing['lifecycle'] }> = {
  pause: { from: ['active'], to: 'paused' },
  resume: { from: ['paused'], to: 'active' },
  archive: { from: ['active', 'paused'], to: 'archived' },
  restore: { from: ['archived'], to: 'active' },
  enter_maintenance: { from: ['active'], to: 'active' },
  exit_maintenance: { from: ['active'], to: 'active' },
};
const running = liveOf({ anchorMs: NOW - MINUTE, deadlineMs: NOW + MINUTE, firstBeatMs: NOW - MINUTE });

function windowOf(nowMs: number) {
  return { startsMs: nowMs, endsMs: nowMs + HOUR };
}

const DAY = 24 * HOUR;

/** A run of two hours at most, which a pause of nearly ten hours has interrupted. */
function resumedRun() {
  const resumedMs = NOW + 10 * HOUR;
  const timing = timingOf({ intervalMs: DAY, maxRuntimeMs: 2 * HOUR });
  const { live } = applyBeat(timing, running, [], { kind: 'start', runId: 'a' }, NOW);
  const paused = changeLifecycle(timing, live, 'pause', { nowMs: NOW + 30 * MINUTE });
  return { ...changeLifecycle(paused.timing, paused.live, 'resume', { nowMs: resumedMs }), resumedMs };
}

/** The kinds of the incidents that a sweeper opens. */
function openedUntil(timing: Timing, live: LiveState, nowMs: number): string[] {
  const { transitions } = wakeMonitor(timing, live, [], { nowMs, horizonMs: nowMs, outages: [] });
  return transitions.map(({ incident }) => incident.kind);
}

describe('lifecycle actions', () => {
  it('lifecycle actions are allowed only from the states in the table, after any sequence of actions', () => {
    const anyStep = fc.tuple(fc.constantFrom(...LIFECYCLE_ACTIONS), fc.integer({ min: 0, max: 5_000 }));
    fc.assert(
      fc.property(fc.array(anyStep, { maxLength: 20 }), (steps) => {
        let state: { timing: Timing; live: LiveState } = { timing: timingOf(), live: running };
        let nowMs = NOW;
        for (const [action, seconds] of steps) {
          nowMs += seconds * SECOND;
          const { maintenance, lifecycle } = state.timing;
          const hasWindow = maintenance !== undefined && maintenance.endsMs > nowMs;
          const isAllowed =
            TABLE[action].from.includes(lifecycle) && (action !== 'exit_maintenance' || hasWindow);
          const change = () =>
            changeLifecycle(state.timing, state.live, action, { nowMs, window: windowOf(nowMs) });
          if (!isAllowed) {
            expect(change).toThrow();
            continue;
          }
          state = change();
          expect(state.timing.lifecycle).toBe(TABLE[action].to);
          expect(state.live.gapBroken).toBe(true);
          if (state.timing.lifecycle !== 'active') {
            expect(state.live).toMatchObject({ deadlineMs: undefined, wakeMs: undefined });
            expect(state.timing.maintenance).toBeUndefined();
          }
        }
      }),
    );
  });

  it('resume and restore begin a full interval plus grace even before the first beat', () => {
    for (const [lifecycle, action] of [
      ['paused', 'resume'],
      ['archived', 'restore'],
    ] as const) {
      const { live } = changeLifecycle(timingOf({ lifecycle }), liveOf(), action, { nowMs: NOW });
      expect(live).toMatchObject({ deadlineMs: NOW + 2 * MINUTE, wakeMs: NOW + MINUTE });
    }
  });

  it('an open run continues through a pause, and its longest time begins again at the end of the pause', () => {
    const timing = timingOf({ maxRuntimeMs: 10 * MINUTE });
    const openRuns = [{ runId: 'a', startedMs: NOW, dueMs: NOW + 10 * MINUTE }];
    const paused = changeLifecycle(timing, { ...running, openRuns }, 'pause', { nowMs: NOW + MINUTE });
    const { live } = changeLifecycle(paused.timing, paused.live, 'resume', { nowMs: NOW + HOUR });
    const countedFromMs = NOW + HOUR;
    const dueMs = countedFromMs + 10 * MINUTE;
    expect(live.openRuns).toEqual([{ runId: 'a', startedMs: NOW, countedFromMs, dueMs }]);
  });

  it('a longer limit of a run that was given its full time again counts from there, and not from its start', () => {
    const { timing, live, resumedMs } = resumedRun();
    const longer = { ...timing, maxRuntimeMs: 4 * HOUR };
    const refitted = { ...live, openRuns: refitRuns(longer, live.openRuns, resumedMs + 5 * MINUTE) };
    expect(openedUntil(longer, refitted, resumedMs + 4 * HOUR - SECOND)).toEqual([]);
    expect(openedUntil(longer, refitted, resumedMs + 4 * HOUR)).toEqual(['overdue_run']);
  });

  it('a window that replaces another leaves the limits of open runs as they are', () => {
    const { timing, live, resumedMs } = resumedRun();
    const enter = (before: { timing: Timing; live: LiveState }, endsMs: number) =>
      changeLifecycle(before.timing, before.live, 'enter_maintenance', {
        nowMs: resumedMs + 10 * MINUTE,
        window: { startsMs: resumedMs + 20 * MINUTE, endsMs },
      });
    const moved = enter(enter({ timing, live }, resumedMs + 30 * MINUTE), resumedMs + HOUR);
    expect(moved.live.openRuns).toEqual(live.openRuns);
    expect(openedUntil(moved.timing, moved.live, resumedMs + 2 * HOUR - SECOND)).toEqual([]);
    expect(openedUntil(moved.timing, moved.live, resumedMs + 2 * HOUR)).toEqual(['overdue_run']);
  });

  it('the limit of a run that begins in a window does not keep the end of that window when another replaces it', () => {
    const window = { startsMs: NOW - HOUR, endsMs: NOW + 5 * HOUR };
    const timing = timingOf({ intervalMs: DAY, maxRuntimeMs: HOUR, maintenance: window });
    const { live } = applyBeat(timing, liveOf(), [], { kind: 'start', runId: 'a' }, NOW);
    const { timing: after, live: moved } = changeLifecycle(timing, live, 'enter_maintenance', {
      nowMs: NOW + MINUTE,
      window: { ...window, endsMs: NOW + 2 * HOUR },
    });
    expect(openedUntil(timing, live, NOW + 5 * HOUR - SECOND)).toEqual([]);
    expect(openedUntil(timing, live, NOW + 5 * HOUR)).toEqual(['overdue_run']);
    expect(openedUntil(after, moved, NOW + 2 * HOUR - SECOND)).toEqual([]);
    expect(openedUntil(after, moved, NOW + 2 * HOUR)).toEqual(['overdue_run']);
  });

  it.each(['exit_maintenance', 'enter_maintenance'] as const)(
    '%s opens nothing for a run whose limit passed in the window, when an outage of the window may have swallowed its end',
    (action) => {
      const maintenance = { startsMs: NOW - HOUR, endsMs: NOW + 5 * HOUR };
      const timing = timingOf({ intervalMs: DAY, maxRuntimeMs: HOUR, maintenance });
      const { live } = applyBeat(timing, liveOf(), [], { kind: 'start', runId: 'a' }, NOW);
      const nowMs = NOW + 4 * HOUR;
      const window = { startsMs: NOW + 6 * HOUR, endsMs: NOW + 7 * HOUR };
      const after = changeLifecycle(timing, live, action, { nowMs, window });
      const openedIn = (outages: Outage[]) =>
        wakeMonitor(after.timing, after.live, [], { nowMs, horizonMs: nowMs, outages }).transitions.map(
          ({ incident }) => [incident.kind, incident.deadlineMs],
        );
      expect(openedIn([{ fromMs: NOW + 2 * HOUR, toMs: NOW + 3 * HOUR }])).toEqual([]);
      expect(openedIn([])).toEqual([['overdue_run', nowMs]]);
    },
  );

  it('a window that replaces another one ends it: what falls between the two is judged, and without a gap nothing is', () => {
    const maintenance = { startsMs: NOW - HOUR, endsMs: NOW + 5 * HOUR };
    const timing = timingOf({ intervalMs: HOUR, maxRuntimeMs: HOUR, maintenance });
    const success = applyBeat(timing, liveOf(), [], { kind: 'success' }, NOW).live;
    const { live } = applyBeat(timing, success, [], { kind: 'start', runId: 'a' }, NOW);
    const nowMs = NOW + 4 * HOUR;
    const endsMs = NOW + 7 * HOUR;
    const replace = (startsMs: number) =>
      changeLifecycle(timing, live, 'enter_maintenance', { nowMs, window: { startsMs, endsMs } });
    const ahead = replace(nowMs + 5 * SECOND);
    expect(ahead.live).toMatchObject({ wakeMs: nowMs, deadlineMs: endsMs });
    expect(openedUntil(ahead.timing, ahead.live, nowMs)).toEqual(['overdue_run']);
    const later = replace(nowMs + HOUR);
    expect(later.live.deadlineMs).toBe(nowMs + timing.graceMs);
    // A sweep that comes after the start finds a window that runs.
    expect(openedUntil(ahead.timing, ahead.live, nowMs + 5 * SECOND)).toEqual([]);
    expect(openedUntil(ahead.timing, ahead.live, endsMs)).toContain('overdue_run');
    for (const startsMs of [nowMs, nowMs - SECOND, NOW - HOUR]) {
      const within = replace(startsMs);
      expect(openedUntil(within.timing, within.live, nowMs)).toEqual([]);
      expect(openedUntil(within.timing, within.live, endsMs - SECOND)).toEqual([]);
    }
  });

  it('a window moves a deadline inside it to its end; an early exit begins a full interval plus grace', () => {
    const enter = (window: { startsMs: number; endsMs: number }) =>
      changeLifecycle(timingOf(), running, 'enter_maintenance', { nowMs: NOW, window });
    expect(enter({ startsMs: NOW, endsMs: NOW + HOUR }).live.deadlineMs).toBe(NOW + HOUR);
    expect(enter({ startsMs: NOW + 2 * MINUTE, endsMs: NOW + HOUR }).live.deadlineMs).toBe(NOW + MINUTE);
    const { timing, live } = enter({ startsMs: NOW, endsMs: NOW + HOUR });
    const left = changeLifecycle(timing, live, 'exit_maintenance', { nowMs: NOW + MINUTE });
    expect(left.timing.maintenance).toBeUndefined();
    expect(left.live.deadlineMs).toBe(NOW + 3 * MINUTE);
  });
});
