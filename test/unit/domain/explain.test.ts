// The sentences of an explanation (docs/contract/monitors.md). That its parts add up is a property of histories:
// test/api/explain-property.test.ts.
import { describe, expect, it } from 'vitest';
import { startClock } from '../../../src/domain/deadline.ts';
import { becauseOf } from '../../../src/domain/explain/because.ts';
import { explain } from '../../../src/domain/explain/explain.ts';
import { quickDeadlines } from '../../../src/domain/explain/quick-deadline.ts';
import type { IncidentThen, Situation } from '../../../src/domain/explain/situation.ts';
import { everySchedule, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

/** A monitor whose last success came at noon. */
function situationOf(more: Partial<Situation> = {}): Situation {
  const timing = more.timing ?? timingOf();
  const beaten = liveOf({
    firstBeatMs: NOW,
    lastBeatMs: NOW,
    lastSuccessMs: NOW,
    cadenceMs: more.live?.cadenceMs,
  });
  const live = { ...startClock(timing, beaten, NOW), ...more.live };
  const base = { atMs: NOW + SECOND, start: 'success', incidents: [], outages: [], changes: [] } as const;
  return { ...base, ...more, timing, live };
}

const open: IncidentThen = {
  incidentId: 'inc_1',
  kind: 'missed_deadline',
  state: 'open',
  severity: 'critical',
  openedMs: NOW + 2 * MINUTE,
  sinceMs: NOW + 2 * MINUTE,
  deadlineMs: NOW + 2 * MINUTE,
  summary: 'No beat came before the deadline.',
  suppressed: [],
};
const notes = (situation: Situation) =>
  explain(situation).deadline.parts.map(({ kind, note }) => [kind, note]);

describe('the parts of a deadline', () => {
  it('an outage of Beatkeeper is named with its span', () => {
    const situation = situationOf({ outages: [{ fromMs: NOW + 10 * SECOND, toMs: NOW + 20 * SECOND }] });
    expect(notes(situation).at(-1)).toEqual([
      'service_outage',
      'Beatkeeper was away (12:00:10 UTC to 12:00:20 UTC), and a beat may have been lost.',
    ]);
    expect(explain(situation).deadline.atMs).toBe(NOW + 20 * SECOND + 2 * MINUTE);
  });

  it('beats that the service could not take are named with their number', () => {
    const excused = { excusedFromMs: NOW + 5 * SECOND, excusedMs: NOW + 30 * SECOND, excusedBeats: 3 };
    const situation = situationOf({ live: liveOf(excused), atMs: NOW + MINUTE });
    const live = { ...startClock(timingOf(), liveOf({ lastBeatMs: NOW }), NOW), ...excused };
    expect(notes({ ...situation, live })[1]).toEqual([
      'refused_beat',
      '3 beats that Beatkeeper could not take showed that the job runs: the clock counts from 12:00:30 UTC.',
    ]);
  });

  it('a schedule, a learned cadence and deadlines that passed have parts of their own', () => {
    const schedule = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR) });
    expect(notes(situationOf({ timing: schedule }))[1]).toEqual([
      'cron',
      'The schedule is next due at 13:00:00 UTC.',
    ]);
    const learned = timingOf({ intervalMs: undefined });
    const clocked = startClock(learned, liveOf({ cadenceMs: 90 * SECOND }), NOW);
    expect(notes({ ...situationOf({ timing: learned }), live: clocked })[1]).toEqual([
      'learned',
      'The learned cadence is 90 s.',
    ]);
    const timing = timingOf({ missedBeatsToOpen: 3 });
    const live = { ...startClock(timing, liveOf(), NOW), missedCount: 1 };
    expect(notes({ ...situationOf({ timing }), live }).at(-1)).toEqual([
      'interval',
      'Of 3 deadlines in a row 1 passed without a beat: the next one counts.',
    ]);
  });

  it('a change that left the grace from then is named with its time', () => {
    const situation = situationOf();
    const live = { ...situation.live, deadlineMs: NOW + 5 * MINUTE };
    expect(notes({ ...situation, live, changes: [NOW + 4 * MINUTE] }).at(-1)).toEqual([
      'grace',
      'The monitor was changed at 12:04:00 UTC: the deadline is at least the grace from then.',
    ]);
  });
});

describe('the sentence', () => {
  it('says of a silence when the last beat came and what the deadline was made of', () => {
    const situation = situationOf({ incidents: [open], atMs: NOW + 3 * MINUTE });
    expect(explain(situation).because).toBe(
      'Down since 12:02:00 UTC: no beat since 12:00:00 UTC; the deadline was 12:02:00 UTC (interval 1 min, grace 1 min).',
    );
    expect(explain({ ...situation, changes: [NOW + 1] }).because).toBe(
      'Down since 12:02:00 UTC: no beat since 12:00:00 UTC; the deadline was 12:02:00 UTC.',
    );
  });

  it('of an incident that recovers it says what opened it', () => {
    const sinceMs = NOW + 5 * MINUTE;
    const recovering: IncidentThen = { ...open, state: 'recovering', sinceMs };
    const timing = timingOf({ recoveryBeats: 2 });
    const situation = situationOf({ timing, incidents: [recovering], atMs: sinceMs + 1 });
    const live = { ...situation.live, lastBeatMs: sinceMs };
    expect(explain({ ...situation, live }).because).toBe(
      'Recovering since 12:05:00 UTC: No beat came before the deadline. It is over after 2 successes in a row.',
    );
  });

  it('of an incident of a rule it says since when that is open, which may be before it was grave, and what ends it', () => {
    const broken: IncidentThen = {
      ...open,
      kind: 'rule_violation',
      severity: 'critical',
      deadlineMs: undefined,
      summary: 'rows is 3, below its minimum of 10.',
    };
    expect(explain(situationOf({ incidents: [broken] })).because).toBe(
      'Down: rows is 3, below its minimum of 10. The incident is open since 12:02:00 UTC.',
    );
    const recovering: IncidentThen = { ...broken, state: 'recovering' };
    expect(explain(situationOf({ incidents: [recovering] })).because).toBe(
      'Recovering since 12:02:00 UTC: rows is 3, below its minimum of 10. It is over after as many conforming successes in a row as its rule counts.',
    );
  });

  it('goes on with the gravest incident that is not over where that does not make the monitor down, and counts the others', () => {
    const broken: IncidentThen = {
      ...open,
      kind: 'rule_violation',
      severity: 'warning',
      deadlineMs: undefined,
      summary: 'rows is 3, below its minimum of 10.',
    };
    const up =
      'Up: the last beat came at 12:00:00 UTC; the deadline is 12:02:00 UTC (interval 1 min, grace 1 min).';
    const words =
      'An incident of severity warning is open since 12:02:00 UTC: rows is 3, below its minimum of 10.';
    const told = (...incidents: IncidentThen[]) => explain(situationOf({ incidents })).because;
    expect(told(broken)).toBe(`${up} ${words}`);
    const sinceMs = NOW + 9 * MINUTE;
    const recovering = { ...broken, state: 'recovering', sinceMs } as const;
    expect(told(recovering)).toBe(
      `${up} An incident of severity warning is recovering since 12:09:00 UTC: rows is 3, below its minimum of 10.`,
    );
    const info = { ...broken, severity: 'info', summary: 'size is 0 and should not be.' } as const;
    expect(told(info)).toBe(
      `${up} An incident of severity info is open since 12:02:00 UTC: size is 0 and should not be.`,
    );
    // Open ones before those that recover, whichever is older; of those alike the oldest.
    const younger = { ...broken, sinceMs, summary: 'size is 5, above its maximum of 4.' };
    expect(told(info, recovering, broken, younger)).toBe(`${up} ${words} And 3 more.`);
    expect(told(broken, info)).toBe(`${up} ${words} And 1 more.`);

    const late = explain(situationOf({ incidents: [broken], atMs: NOW + 80 * SECOND })).because;
    expect(late).toMatch(/^Late since 12:01:00 UTC: /);
    expect(late.endsWith(`. ${words}`)).toBe(true);
    const suspended = { serviceState: 'canceled', incidents: [broken] } as const;
    expect(explain(situationOf(suspended)).because).toContain(
      `${words} The service of the organization is suspended: `,
    );
    const unbeaten = situationOf({ incidents: [broken] });
    const live = { ...unbeaten.live, firstBeatMs: undefined };
    expect(explain({ ...unbeaten, live }).because).toMatch(/^Waiting for the first beat: .* is open since /);
  });

  it('of one that recovers or is in maintenance names an incident that is open beside that, and of one that is down no other', () => {
    const warning: IncidentThen = {
      ...{ ...open, kind: 'rule_violation', severity: 'warning', deadlineMs: undefined },
      summary: 'rows is 3, below its minimum of 10.',
    };
    const recovering: IncidentThen = { ...open, state: 'recovering' };
    const words =
      ' An incident of severity warning is open since 12:02:00 UTC: rows is 3, below its minimum of 10.';
    expect(explain(situationOf({ incidents: [recovering, warning] })).because).toBe(
      `Recovering since 12:02:00 UTC: No beat came before the deadline. It is over after a success.${words}`,
    );
    const maintenance = { startsMs: NOW, endsMs: NOW + HOUR };
    const inWindow = (...incidents: IncidentThen[]) =>
      explain(situationOf({ timing: timingOf({ maintenance }), incidents })).because;
    const until = 'In maintenance until 13:00:00 UTC: nothing opens before.';
    expect(inWindow(recovering)).toBe(until);
    expect(inWindow(recovering, warning)).toBe(`${until}${words}`);
    expect(inWindow(warning, open)).toBe(
      `${until} An incident of severity critical is open since 12:02:00 UTC: No beat came before the deadline. And 1 more.`,
    );
    expect(explain(situationOf({ incidents: [open, warning] })).because).toMatch(/^Down since [^.]*\.$/);
    const paused = { timing: timingOf({ lifecycle: 'paused' }), incidents: [warning] };
    expect(explain(situationOf(paused)).because).toMatch(/^Paused: [^.]*\.$/);
  });

  it('says no deadline that was changed is made of parts, and of no time to come that it is late since then', () => {
    const { live } = situationOf();
    const changed = { ...live, deadlineMs: NOW + 5 * MINUTE };
    expect(explain({ ...situationOf({ changes: [NOW + 4 * MINUTE] }), live: changed }).because).toBe(
      'Up: the last beat came at 12:00:00 UTC; the deadline is 12:05:00 UTC.',
    );
    const outages = [{ fromMs: NOW + 10 * SECOND, toMs: NOW + 55 * SECOND }];
    expect(explain(situationOf({ atMs: NOW + 80 * SECOND, outages })).because).toMatch(
      /^Late: the last beat/,
    );
    expect(explain(situationOf({ atMs: NOW + 80 * SECOND })).because).toMatch(/^Late since 12:01:00 UTC: /);
  });

  it('says of several deadlines in a row which one it is, and what those that passed add', () => {
    const timing = timingOf({ missedBeatsToOpen: 3 });
    const running = situationOf({ timing });
    expect(explain(running).because).toBe(
      'Up: the last beat came at 12:00:00 UTC; deadline 1 of 3 is 12:02:00 UTC (interval 1 min, grace 1 min).',
    );
    const second = {
      ...running.live,
      missedCount: 1,
      deadlineMs: NOW + 3 * MINUTE,
      unmovedMs: NOW + 2 * MINUTE,
    };
    const late = situationOf({ timing, live: second, atMs: NOW + 150 * SECOND });
    expect(explain(late).because).toBe(
      'Late: the last beat came at 12:00:00 UTC; deadline 2 of 3 is 12:03:00 UTC (interval 1 min, grace 1 min, 1 min for a missed beat).',
    );
    const incidents = [{ ...open, deadlineMs: NOW + 4 * MINUTE, sinceMs: NOW + 4 * MINUTE }];
    const stopped = { ...running.live, deadlineMs: undefined };
    const down = situationOf({ timing, live: stopped, incidents, atMs: NOW + 5 * MINUTE });
    expect(explain(down).because).toBe(
      'Down since 12:04:00 UTC: no beat since 12:00:00 UTC; the last of 3 deadlines was 12:04:00 UTC (interval 1 min, grace 1 min, 2 min for 2 missed beats).',
    );
  });

  it('counts from where the clock started, where that is not the last beat', () => {
    const timing = timingOf();
    const live = startClock(timing, liveOf({ firstBeatMs: NOW - HOUR, lastBeatMs: NOW - HOUR }), NOW);
    const situation = situationOf({ live, start: 'resume' });
    expect(explain(situation).because).toBe(
      'Up: the last beat came at 11:00:00 UTC; the deadline is 12:02:00 UTC (from 12:00:00 UTC: interval 1 min, grace 1 min).',
    );
    const stopped = { ...live, deadlineMs: undefined };
    expect(explain({ ...situation, live: stopped, incidents: [open], atMs: NOW + 3 * MINUTE }).because).toBe(
      'Down since 12:02:00 UTC: no beat since 11:00:00 UTC; the deadline was 12:02:00 UTC (from 12:00:00 UTC: interval 1 min, grace 1 min).',
    );
  });

  it('says what an outage of Beatkeeper and a maintenance window add, also to a deadline that was missed', () => {
    const outages = [{ fromMs: NOW + 10 * SECOND, toMs: NOW + 75 * SECOND }];
    const situation = situationOf({ outages });
    const words = '(interval 1 min, grace 1 min, 1 min 15 s for an outage of Beatkeeper)';
    expect(explain(situation).because).toContain(`the deadline is 12:03:15 UTC ${words}.`);
    const incidents = [{ ...open, deadlineMs: NOW + 195 * SECOND }];
    const missed = { incidents, live: { ...situation.live, deadlineMs: undefined }, atMs: NOW + 4 * MINUTE };
    expect(explain(situationOf({ outages, ...missed })).because).toContain(
      `the deadline was 12:03:15 UTC ${words}.`,
    );
    // What moved it is not known any more.
    expect(explain(situationOf(missed)).because).toMatch(/the deadline was 12:03:15 UTC\.$/);
    const maintenance = { startsMs: NOW + MINUTE, endsMs: NOW + HOUR };
    expect(explain(situationOf({ timing: timingOf({ maintenance }) })).because).toContain(
      'the deadline is 13:00:00 UTC (interval 1 min, grace 1 min, maintenance until 13:00:00 UTC).',
    );
  });

  it('says of a suspended organization since when it is, and that nothing is judged', () => {
    const suspended = { serviceState: 'canceled', suspendedMs: NOW + SECOND } as const;
    const words =
      'The service of the organization is suspended since 12:00:01 UTC: beats are refused, and nothing is judged.';
    expect(explain(situationOf(suspended)).because).toBe(
      `Up: the last beat came at 12:00:00 UTC; the deadline is 12:02:00 UTC (interval 1 min, grace 1 min). ${words}`,
    );
    expect(explain(situationOf({ serviceState: 'deleting' })).because).toContain(
      '. The service of the organization is suspended: beats',
    );
    const paused = explain(situationOf({ ...suspended, timing: timingOf({ lifecycle: 'paused' }) }));
    expect(paused.because).toBe(`Paused: no deadline runs. ${words}`);
    expect(explain(situationOf({ serviceState: 'payment_grace' })).because).not.toContain('suspended');
  });

  it('names a rest that no sweeper has seen', () => {
    const resting = situationOf({ atMs: NOW + 3 * MINUTE, restsSinceMs: NOW + 2 * MINUTE });
    expect(explain(resting).deadline.atMs).toBeUndefined();
    expect(explain(resting).because).toBe(
      'Late: the last beat came at 12:00:00 UTC; a deadline passed at 12:02:00 UTC, while the organization was suspended: none runs before its return.',
    );
  });

  it('names the day of a time that is not of the same day', () => {
    const situation = situationOf({ incidents: [open], atMs: NOW + 24 * HOUR });
    expect(explain(situation).because).toContain('Down since 2026-06-01 12:02:00 UTC: ');
  });
});

describe('the sentence without a question to the schedule', () => {
  const quick = (situation: Situation) => becauseOf(situation, quickDeadlines(situation));

  it('names the day of each time', () => {
    expect(quick(situationOf())).toBe(
      'Up: the last beat came at 2026-06-01 12:00:00 UTC; the deadline is 2026-06-01 12:02:00 UTC (interval 1 min, grace 1 min).',
    );
  });

  it('a schedule is asked neither for its deadline nor for one that may have been moved, which is left out', () => {
    const asked = { nextAfter: (): number => expect.fail('The schedule was asked.') };
    const timing = timingOf({ intervalMs: undefined, schedule: everySchedule(HOUR) });
    const situation = situationOf({ timing });
    const unasked = { ...situation, timing: { ...timing, schedule: asked } };
    expect(quick(unasked)).toBe(
      'Up: the last beat came at 2026-06-01 12:00:00 UTC; the deadline is 2026-06-01 13:01:00 UTC (schedule 2026-06-01 13:00:00 UTC, grace 1 min).',
    );
    const atMs = NOW + MINUTE;
    const moved: Partial<Situation>[] = [
      { outages: [{ fromMs: NOW + SECOND, toMs: NOW + 9 * SECOND }] },
      { live: { ...situation.live, excusedMs: NOW + SECOND } },
      { live: { ...situation.live, unmovedMs: NOW + SECOND } },
      { timing: { ...unasked.timing, maintenance: { startsMs: NOW + HOUR, endsMs: NOW + 2 * HOUR } } },
    ];
    for (const more of moved) {
      expect(quick({ ...unasked, atMs, ...more })).toBe('Up: the last beat came at 2026-06-01 12:00:00 UTC.');
    }
    const late = { live: { ...situation.live, missedCount: 1 } };
    expect(quick({ ...unasked, ...late })).toBe('Late: the last beat came at 2026-06-01 12:00:00 UTC.');
  });
});

describe('what keeps an alert from being sent', () => {
  it('an incident that recovers sends no second alert within five minutes', () => {
    const incident: IncidentThen = { ...open, state: 'recovering', alertedMs: NOW };
    const atMs = NOW + 4 * MINUTE;
    expect(explain(situationOf({ incidents: [incident], atMs })).silence).toEqual([
      {
        reason: 'recent_alert',
        untilMs: NOW + 5 * MINUTE,
        note: 'If inc_1 opens again, it sends no second alert so soon after that of 12:00:00 UTC.',
      },
    ]);
    expect(explain(situationOf({ incidents: [incident], atMs: NOW + 5 * MINUTE })).silence).toEqual([]);
  });

  it('a suspended organization has nothing open, and one in payment grace is as any other', () => {
    expect(explain(situationOf({ serviceState: 'canceled' })).silence).toEqual([
      {
        reason: 'service_suspended',
        note: 'The organization is canceled: nothing opens, and a deadline that passes rests until it returns.',
      },
    ]);
    expect(explain(situationOf({ serviceState: 'payment_grace' })).silence).toEqual([]);
  });
});
