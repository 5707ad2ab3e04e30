// The sentences of an explanation (docs/contract/monitors.md). That its parts add up is a property of histories:
// test/api/explain-property.test.ts.
import { describe, expect, it } from 'vitest';
import { startClock } from '../../../src/domain/deadline.ts';
import { explain } from '../../../src/domain/explain/explain.ts';
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

  it('names the day of a time that is not of the same day', () => {
    const situation = situationOf({ incidents: [open], atMs: NOW + 24 * HOUR });
    expect(explain(situation).because).toContain('Down since 2026-06-01 12:02:00 UTC: ');
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
