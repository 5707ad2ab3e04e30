// How outages of the service and refused beats move a silence, by examples. Random ones: silence-property.test.ts.
import { describe, expect, it } from 'vitest';
import { applyBeat } from '../../../src/domain/beat.ts';
import { nextWake, refitRuns, startClock } from '../../../src/domain/deadline.ts';
import { type Incident, openIncident } from '../../../src/domain/incident.ts';
import { changeLifecycle } from '../../../src/domain/lifecycle.ts';
import type { LiveState, Outage, Timing } from '../../../src/domain/monitor.ts';
import { deadlinesOf, mergeOutages } from '../../../src/domain/silence.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { type ApiOutage, Random, Simulation } from './silence-simulation.ts';
import { everySchedule, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

const DAY = 24 * HOUR;
const daily = timingOf({ intervalMs: DAY, graceMs: HOUR });

/** An outage that begins `afterMs` after NOW. */
const outageAt = (afterMs: number, lengthMs: number): ApiOutage => ({
  api: 0,
  fromMs: NOW + afterMs,
  toMs: NOW + afterMs + lengthMs,
  knownMs: NOW + afterMs + lengthMs,
});

/** A monitor with a beat at NOW. */
function simulate(timing: Timing, outages: ApiOutage[]): Simulation {
  const simulation = new Simulation(timing, outages, new Random(1));
  simulation.commit({ kind: 'success' }, NOW, NOW);
  return simulation;
}

/** The incident of a job that is dead since NOW. */
function findDeath(timing: Timing, outages: ApiOutage[]): Incident | undefined {
  const simulation = simulate(timing, outages);
  simulation.runUntil(Number.POSITIVE_INFINITY);
  return simulation.incidents[0];
}

const beaten = (timing: Timing): LiveState => startClock(timing, liveOf(), NOW);
const at = (nowMs: number, outages: Outage[] = [], horizonMs = nowMs) => ({ nowMs, horizonMs, outages });

describe('a dead job is found however often the service is away', () => {
  it('a dead daily job is found after one more interval and grace, though the service restarts each night', () => {
    const nights = Array.from({ length: 60 }, (_, night) => outageAt(night * DAY + 23 * HOUR, 10 * SECOND));
    const found = findDeath(daily, nights);
    expect(found?.deadlineMs).toBeGreaterThan(NOW + 25 * HOUR);
    expect(found?.deadlineMs).toBeLessThanOrEqual(NOW + 2 * 25 * HOUR + 3 * 10 * SECOND);
  });

  it('a dead job with a minute of interval and grace is found, though the service stalls for 4 s every 70 s', () => {
    const stalls = Array.from({ length: 1_000 }, (_, count) => outageAt(count * 70 * SECOND, 4 * SECOND));
    const found = findDeath(timingOf(), stalls);
    expect(found?.deadlineMs).toBeLessThanOrEqual(NOW + 2 * 2 * MINUTE + 4 * 4 * SECOND);
  });

  it('a dead job is found in twice the time of its deadlines, where missedBeatsToOpen lets several pass', () => {
    const timing = timingOf({ missedBeatsToOpen: 3 });
    const stalls = Array.from({ length: 1_000 }, (_, count) => outageAt(count * 70 * SECOND, 4 * SECOND));
    const found = findDeath(timing, stalls);
    expect(found?.deadlineMs).toBeGreaterThan(NOW + 4 * MINUTE);
    expect(found?.deadlineMs).toBeLessThanOrEqual(NOW + 2 * 4 * MINUTE + 8 * 4 * SECOND);
  });

  it('the first outage gives a full clock from its end, and the next one only its length', () => {
    const timing = timingOf({ intervalMs: HOUR, graceMs: HOUR });
    const first = outageAt(HOUR, MINUTE);
    expect(findDeath(timing, [first])?.deadlineMs).toBe(first.toMs + 2 * HOUR);
    const second = outageAt(2 * HOUR + 30 * MINUTE, 5 * MINUTE);
    expect(findDeath(timing, [first, second])?.deadlineMs).toBe(first.toMs + 2 * HOUR + 5 * MINUTE);
  });

  it('the time in which two apis were away at once counts once', () => {
    const both = [outageAt(10 * SECOND, 60 * SECOND), { ...outageAt(30 * SECOND, 20 * SECOND), api: 1 }];
    expect(mergeOutages(both)).toEqual([{ fromMs: NOW + 10 * SECOND, toMs: NOW + 70 * SECOND }]);
    expect(findDeath(timingOf(), both)?.deadlineMs).toBe(findDeath(timingOf(), both.slice(0, 1))?.deadlineMs);
  });

  it('an outage that began before the last beat moves a deadline by no more than its rest', () => {
    const timing = timingOf({ intervalMs: HOUR, graceMs: HOUR });
    const rest = outageAt(-DAY, DAY + SECOND);
    expect(deadlinesOf(timing, beaten(timing), [rest])).toEqual([NOW + 2 * HOUR + SECOND]);
    expect(deadlinesOf(timing, beaten(timing), [outageAt(-DAY, DAY)])).toEqual([NOW + 2 * HOUR]);
  });
});

describe('a living job does not alert', () => {
  it('a beat that came 15 minutes early, with a grace of 10 minutes, and met an outage makes no alert', () => {
    const simulation = simulate(timingOf({ intervalMs: HOUR, graceMs: 10 * MINUTE }), [
      outageAt(44 * MINUTE, 2 * MINUTE),
    ]);
    // The beat at 45 minutes is lost; the next one is on time for it.
    const nextMs = NOW + 45 * MINUTE + HOUR + 9 * MINUTE;
    simulation.commit({ kind: 'success' }, nextMs, nextMs);
    expect(simulation.incidents).toEqual([]);
  });

  it('a daily job that met an outage of 30 s in one night and one of 20 s in the next makes no alert at 49 hours', () => {
    const first = outageAt(DAY - 10 * SECOND, 30 * SECOND);
    const second = outageAt(2 * DAY, 20 * SECOND);
    const simulation = simulate(daily, [first, second]);
    // The second night's beat has waited for the outage to end.
    const nextMs = first.toMs + 25 * HOUR + 10 * SECOND;
    simulation.commit({ kind: 'success' }, nextMs, nextMs);
    expect(simulation.incidents).toEqual([]);
    expect(findDeath(daily, [first, second])?.deadlineMs).toBe(first.toMs + 25 * HOUR + 20 * SECOND);
  });

  it('a job that lost two beats in one silence is reported like a dead one, and no later', () => {
    const lost = [outageAt(HOUR - SECOND, 2 * SECOND), outageAt(2 * HOUR - SECOND, 2 * SECOND)];
    const timing = timingOf({ intervalMs: HOUR, graceMs: MINUTE });
    const found = findDeath(timing, lost);
    expect(found?.deadlineMs).toBeLessThan(NOW + 3 * HOUR);
    expect(found?.deadlineMs).toBeLessThanOrEqual(NOW + 2 * (HOUR + MINUTE) + 4 * SECOND);
  });

  it('a run that met an outage is never overdue; the deadline finds the job that died in it', () => {
    const timing = timingOf({ intervalMs: HOUR, graceMs: HOUR, maxRuntimeMs: 10 * MINUTE });
    const simulation = simulate(timing, [outageAt(9 * MINUTE, 5 * SECOND)]);
    simulation.commit({ kind: 'start', runId: 'a' }, NOW + MINUTE, NOW + MINUTE);
    simulation.runUntil(Number.POSITIVE_INFINITY);
    expect(simulation.incidents).toMatchObject([{ kind: 'missed_deadline' }]);
  });
});

describe('a beat that the service could not take', () => {
  const refused = (atMs: number, more: Partial<LiveState> = {}): LiveState => ({
    ...beaten(timingOf()),
    excusedFromMs: atMs,
    excusedMs: atMs,
    excusedBeats: 1,
    ...more,
  });

  it('a refused beat moves the running deadline to interval plus grace after it', () => {
    const woken = wakeMonitor(timingOf(), refused(NOW + 90 * SECOND), [], at(NOW + 2 * MINUTE));
    expect(woken.transitions).toEqual([]);
    expect(woken.live.deadlineMs).toBe(NOW + 90 * SECOND + 2 * MINUTE);
    const later = wakeMonitor(timingOf(), woken.live, [], at(NOW + 90 * SECOND + 2 * MINUTE));
    expect(later.transitions).toMatchObject([{ isNew: true }]);
  });

  it('with a schedule a refused beat moves the deadline to grace after the next cron time', () => {
    const timing = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR) });
    const live = { ...beaten(timing), excusedMs: NOW + HOUR + 10 * SECOND };
    const woken = wakeMonitor(timing, live, [], at(NOW + HOUR + MINUTE));
    expect(woken).toMatchObject({ transitions: [], live: { deadlineMs: NOW + 2 * HOUR + MINUTE } });
  });

  it('a refused beat starts no clock and recovers nothing', () => {
    const opening = {
      incidentId: 'inc_1',
      kind: 'missed_deadline',
      severity: 'critical',
      summary: 's',
    } as const;
    const { incident } = openIncident(opening, NOW);
    const live = refused(NOW + MINUTE, { deadlineMs: undefined, openIncidents: 1 });
    const woken = wakeMonitor(timingOf(), live, [incident], at(NOW + HOUR));
    expect(woken).toMatchObject({ transitions: [], live: { deadlineMs: undefined, openIncidents: 1 } });
  });

  it('a refused beat that is older than the running clock changes nothing', () => {
    const woken = wakeMonitor(timingOf(), refused(NOW - SECOND), [], at(NOW + MINUTE));
    expect(woken.live.deadlineMs).toBe(NOW + 2 * MINUTE);
  });

  it('a refused beat of a time that the set-back clock has not reached again does not put off a deadline', () => {
    const woken = wakeMonitor(timingOf(), refused(NOW + DAY), [], at(NOW + 2 * MINUTE));
    expect(woken.transitions).toMatchObject([{ isNew: true, incident: { deadlineMs: NOW + 2 * MINUTE } }]);
  });

  it('a refused beat of such a time hides no overdue run, and is forgotten', () => {
    const timing = timingOf({ maxRuntimeMs: 30 * SECOND });
    const openRuns = [{ startedMs: NOW, dueMs: NOW + 30 * SECOND }];
    const woken = wakeMonitor(timing, refused(NOW + DAY, { openRuns }), [], at(NOW + 40 * SECOND));
    expect(woken.transitions).toMatchObject([{ incident: { kind: 'overdue_run' } }]);
    expect(woken.live).toMatchObject({ excusedMs: undefined, excusedBeats: undefined });
  });

  it('an outage and a refused beat: the later deadline holds', () => {
    const outage = outageAt(100 * SECOND, 10 * SECOND);
    const { live } = wakeMonitor(timingOf(), refused(NOW + 90 * SECOND), [], at(NOW + 2 * MINUTE, [outage]));
    expect(live.deadlineMs).toBe(outage.toMs + 2 * MINUTE);
  });

  it('a run in which the service refused beats is never overdue', () => {
    const timing = timingOf({ maxRuntimeMs: 30 * SECOND });
    const openRuns = [{ startedMs: NOW, dueMs: NOW + 30 * SECOND }];
    const woken = wakeMonitor(timing, refused(NOW + 20 * SECOND, { openRuns }), [], at(NOW + 40 * SECOND));
    expect(woken).toMatchObject({
      transitions: [],
      live: { openRuns: [{ startedMs: NOW, dueMs: undefined }] },
    });
  });

  it('a run whose end an outage may have swallowed stays without a limit, whatever is changed after that', () => {
    const timing = timingOf({ intervalMs: DAY, maxRuntimeMs: 30 * SECOND });
    const before = { ...beaten(timing), openRuns: [{ startedMs: NOW, dueMs: NOW + 30 * SECOND }] };
    const outage = outageAt(10 * SECOND, SECOND);
    const { live } = wakeMonitor(timing, before, [], at(NOW + 40 * SECOND, [outage]));
    // Beyond the outage: what a shorter run would be counted from.
    const changedMs = NOW + MINUTE;
    const paused = changeLifecycle(timing, live, 'pause', { nowMs: changedMs });
    const resumed = changeLifecycle(paused.timing, paused.live, 'resume', { nowMs: changedMs });
    const shorter = { ...timing, maxRuntimeMs: 5 * SECOND };
    const refitted = { ...live, openRuns: refitRuns(shorter, live.openRuns, changedMs) };
    for (const changed of [refitted, resumed.live]) {
      const woken = wakeMonitor(shorter, changed, [], at(NOW + HOUR));
      expect(woken.transitions).toEqual([]);
      expect(woken.live.openRuns).toEqual([{ startedMs: NOW, mayHaveEnded: true }]);
    }
  });

  it('a beat after the deadline that a refused beat has moved is not late', () => {
    const live = refused(NOW + 90 * SECOND);
    expect(applyBeat(timingOf(), live, [], { kind: 'success' }, NOW + 3 * MINUTE).late).toBe(false);
    expect(applyBeat(timingOf(), live, [], { kind: 'success' }, NOW + 4 * MINUTE).late).toBe(true);
  });
});

describe('a moved deadline and a maintenance window', () => {
  it('a deadline that a window and outages have moved does not come back when a later window is set', () => {
    const timing = timingOf();
    const outages = [outageAt(MINUTE, 30 * SECOND), outageAt(50 * MINUTE, 20 * MINUTE)];
    const first = wakeMonitor(timing, beaten(timing), [], at(NOW + 2 * MINUTE, outages.slice(0, 1)));
    const window = { startsMs: NOW + 140 * SECOND, endsMs: NOW + HOUR };
    const inside = changeLifecycle(timing, first.live, 'enter_maintenance', {
      nowMs: NOW + 130 * SECOND,
      window,
    });
    expect(inside.live.deadlineMs).toBe(NOW + HOUR);
    const nowMs = NOW + 70 * MINUTE;
    const after = wakeMonitor(inside.timing, inside.live, [], at(nowMs, outages));
    const later = { startsMs: NOW + 10 * HOUR, endsMs: NOW + 11 * HOUR };
    const changed = changeLifecycle(inside.timing, after.live, 'enter_maintenance', { nowMs, window: later });
    const woken = wakeMonitor(changed.timing, changed.live, [], at(nowMs, outages));
    expect(woken.transitions).toEqual([]);
    expect(woken.live.deadlineMs).toBeGreaterThanOrEqual(nowMs + 2 * MINUTE);
  });

  it('a deadline that passed just before a window opens nothing in it, and runs again from its end', () => {
    const timing = timingOf({ maintenance: { startsMs: NOW + 2 * MINUTE + 1, endsMs: NOW + HOUR } });
    const { transitions, live } = wakeMonitor(timing, beaten(timing), [], at(NOW + 2 * MINUTE + SECOND));
    expect(transitions).toEqual([]);
    expect(live).toMatchObject({ deadlineMs: NOW + HOUR, missedCount: 0 });
  });

  it('a window does not forget the deadlines that passed before it, where missedBeatsToOpen lets several pass', () => {
    const timing = timingOf({
      intervalMs: DAY,
      missedBeatsToOpen: 2,
      maintenance: { startsMs: NOW + DAY + HOUR, endsMs: NOW + DAY + 2 * HOUR },
    });
    const { live } = wakeMonitor(timing, beaten(timing), [], at(NOW + DAY + HOUR));
    expect(live).toMatchObject({ missedCount: 1, deadlineMs: NOW + 2 * DAY + MINUTE });
  });

  it('an end that was lost in a window, which began after the start of the run, makes no overdue run', () => {
    const timing = timingOf({
      intervalMs: DAY,
      maxRuntimeMs: 30 * MINUTE,
      maintenance: { startsMs: NOW + 10 * MINUTE, endsMs: NOW + HOUR },
    });
    // The limit was computed before anybody set the window.
    const live = { ...beaten(timing), openRuns: [{ startedMs: NOW, dueMs: NOW + 30 * MINUTE }] };
    const outage = outageAt(40 * MINUTE, MINUTE);
    expect(wakeMonitor(timing, live, [], at(NOW + HOUR, [outage])).transitions).toEqual([]);
    const overdue = wakeMonitor(timing, live, [], at(NOW + HOUR));
    expect(overdue.transitions).toMatchObject([
      { incident: { kind: 'overdue_run', deadlineMs: NOW + HOUR } },
    ]);
  });

  it('a sweep whose horizon is still in the window does not wake a run again and again', () => {
    const maintenance = { startsMs: NOW, endsMs: NOW + HOUR };
    const timing = timingOf({ intervalMs: DAY, maxRuntimeMs: MINUTE, maintenance });
    const live = { ...beaten(timing), openRuns: [{ startedMs: NOW - SECOND, dueMs: NOW + MINUTE }] };
    expect(nextWake(timing, live, NOW + HOUR + SECOND)).toBe(NOW + HOUR);
  });
});

describe('the timeline of a missed deadline', () => {
  const opened = (live: LiveState, outages: Outage[], incidents: Incident[] = []) =>
    wakeMonitor(timingOf(), live, incidents, at(NOW + DAY, mergeOutages(outages))).transitions[0];
  const iso = (ms: number) => new Date(ms).toISOString();

  it('the timeline names the outages that moved the deadline and no others', () => {
    const outage = outageAt(MINUTE, 10 * SECOND);
    const [before, after] = [outageAt(-MINUTE, SECOND), outageAt(10 * HOUR, SECOND)];
    expect(
      JSON.parse(JSON.stringify(opened(beaten(timingOf()), [before, outage, after])?.entries)),
    ).toMatchObject([
      { type: 'opened' },
      { type: 'service_outage', detail: { from: iso(outage.fromMs), to: iso(outage.toMs) } },
    ]);
    const [, entry] = opened(beaten(timingOf()), [outage])?.entries ?? [];
    expect(Object.keys(entry?.detail ?? {})).toEqual(['from', 'to']);
  });

  it('the timeline names the newest 20 of very many outages, and the refused beats', () => {
    const outages = Array.from({ length: 200 }, (_, count) => outageAt(count * SECOND, 500));
    const live = { ...beaten(timingOf()), excusedFromMs: NOW - SECOND, excusedMs: NOW, excusedBeats: 3 };
    const entries = opened(live, outages)?.entries ?? [];
    expect(entries).toHaveLength(22);
    expect(entries[1]?.detail).toEqual({ from: iso(NOW - SECOND), to: iso(NOW), refusedBeats: 3 });
  });

  it('an incident that was there in the outage, and is opened again, names it no second time', () => {
    const opening = {
      incidentId: 'inc_1',
      kind: 'missed_deadline',
      severity: 'critical',
      summary: 's',
    } as const;
    const { incident } = openIncident(opening, NOW - DAY);
    const recovering: Incident = { ...incident, state: 'recovering' };
    const live = { ...beaten(timingOf()), openIncidents: 1 };
    const entries = opened(live, [outageAt(MINUTE, SECOND)], [recovering])?.entries;
    expect(entries?.map(({ type }) => type)).toEqual(['reopened']);
  });
});
