// What a beat does to the incidents of rules, step by step. What is violated: the tables beside this file.
import { describe, expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { events, MINUTE, openOnes, RuledMonitor, START, sustained } from './ruled-monitor.ts';

describe('a consecutive policy', () => {
  it('opens a warning at the first violation, where nothing is stated', () => {
    const monitor = new RuledMonitor({ minimum: 1 });
    const { transitions, violations } = monitor.beat({ rows: 0 });
    expect(violations).toEqual([{ measurement: 'rows', rule: 'minimum', bound: 1, value: 0 }]);
    expect(transitions).toMatchObject([
      {
        isNew: true,
        incident: {
          kind: 'rule_violation',
          measurement: 'rows',
          rule: 'minimum',
          severity: 'warning',
          state: 'open',
          openSequence: 1,
          openedMs: START + MINUTE,
          violationCount: 1,
          summary: 'rows is 0, below its minimum of 1.',
        },
      },
    ]);
  });

  it('opens at the third violation in a row, and ends after three conforming ones', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: { consecutiveObservations: 3, severity: 'critical' },
    });
    for (const rows of [11, 12, 10, 13, 14]) expect(monitor.beat({ rows }).transitions).toEqual([]);
    const opened = monitor.beat({ rows: 15 });
    expect(opened.transitions[0]?.incident.summary).toBe(
      'rows is 15, above its maximum of 10, 3 times in a row.',
    );
    expect(events(monitor.beat({ rows: 16 }))).toEqual([undefined]);
    expect(events(monitor.beat({ rows: 1 }))).toEqual([undefined]);
    expect(openOnes(monitor)).toEqual(['recovering critical']);
    expect(events(monitor.beat({ rows: 1 }))).toEqual([undefined]);
    expect(events(monitor.beat({ rows: 1 }))).toEqual(['incident.recovered']);
    expect(openOnes(monitor)).toEqual([]);
  });

  it('reopens at the first violation, with a second alert only after five minutes', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: { consecutiveObservations: 2, severity: 'critical' },
    });
    monitor.beat({ rows: 11 });
    expect(events(monitor.beat({ rows: 11 }))).toEqual(['incident.opened']);
    monitor.beat({ rows: 1 });
    expect(events(monitor.beat({ rows: 11 }))).toEqual([undefined]);
    expect(openOnes(monitor)).toEqual(['open critical']);
    monitor.beat({ rows: 1 });
    expect(events(monitor.beat({ rows: 11 }, { afterMs: 5 * MINUTE }))).toEqual(['incident.reopened']);
  });

  it('does not count a beat without the key, in a row and in a recovery', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: { consecutiveObservations: 2, severity: 'info' },
    });
    monitor.beat({ rows: 11 });
    expect(monitor.beat({}).states).toEqual(monitor.states);
    expect(events(monitor.beat({ rows: 11 }))).toEqual(['incident.opened']);
    monitor.beat({ rows: 1 });
    expect(events(monitor.beat({}))).toEqual([]);
    expect(events(monitor.beat({ rows: 1 }))).toEqual(['incident.recovered']);
  });
});

describe('a changed definition', () => {
  const two = { consecutiveObservations: 2, severity: 'warning' } as const;

  it('of a consecutive policy raises no incident that is open', () => {
    const monitor = new RuledMonitor({ maximum: 10 });
    monitor.beat({ rows: 11 });
    monitor.rules = compileRules({
      rows: { maximum: 10, rulePolicy: { consecutiveObservations: 1, severity: 'critical' } },
    });
    expect(events(monitor.beat({ rows: 11 }))).toEqual([undefined]);
    expect(openOnes(monitor)).toEqual(['open warning']);
  });

  it('to a sustained policy reopens and raises at once, with one event', () => {
    const monitor = new RuledMonitor({ maximum: 10, rulePolicy: two });
    for (const rows of [11, 11, 1]) monitor.beat({ rows });
    expect(openOnes(monitor)).toEqual(['recovering warning']);
    const rulePolicy = sustained({ kind: 'observations', observations: 1 });
    monitor.rules = compileRules({ rows: { maximum: 10, rulePolicy } });
    expect(monitor.beat({ rows: 11 }, { afterMs: 10 * MINUTE }).transitions).toMatchObject([
      {
        incident: { state: 'open', severity: 'critical' },
        entries: [{ type: 'reopened' }, { type: 'escalated', detail: { from: 'warning', to: 'critical' } }],
        event: { type: 'incident.escalated', previousState: 'recovering' },
      },
    ]);
  });

  it('raises no incident by the time that is recovering', () => {
    const monitor = new RuledMonitor({ maximum: 10, rulePolicy: two });
    for (const rows of [11, 11, 1]) monitor.beat({ rows });
    const rulePolicy = sustained({ kind: 'elapsed_time', seconds: 60 });
    monitor.rules = compileRules({ rows: { maximum: 10, rulePolicy } });
    monitor.beat({ rows: 11 }, { quiet: true });
    expect(monitor.escalatesMs).toBeUndefined();
    expect(monitor.pass(monitor.nowMs + 60 * MINUTE)).toEqual([]);
  });

  it('that takes a rule away takes its state with it', () => {
    const monitor = new RuledMonitor({ minimum: 1 }, { files: { minimum: 1 } });
    monitor.beat({ rows: 0, files: 0 });
    expect(Object.keys(monitor.states).sort()).toEqual(['files', 'rows']);
    monitor.rules = compileRules({ files: { minimum: 1 } });
    monitor.beat({ rows: 0, files: 0 });
    expect(Object.keys(monitor.states)).toEqual(['files']);
  });
});

describe('a violation in a pause', () => {
  it('sets the count of conforming beats back', () => {
    const rulePolicy = { consecutiveObservations: 2, severity: 'warning' } as const;
    const monitor = new RuledMonitor({ maximum: 10, rulePolicy });
    for (const rows of [11, 11, 1]) monitor.beat({ rows });
    expect(events(monitor.beat({ rows: 11 }, { quiet: true }))).toEqual([undefined]);
    expect(openOnes(monitor)).toEqual(['recovering warning']);
    expect(events(monitor.beat({ rows: 1 }))).toEqual([undefined]);
    expect(events(monitor.beat({ rows: 1 }))).toEqual(['incident.recovered']);
  });
});

describe('the summary', () => {
  const summary = (rule: MeasurementRule, ...beats: Record<string, number>[]) => {
    const monitor = new RuledMonitor(rule);
    const [transition] = beats.map((beat) => monitor.beat(beat)).at(-1)?.transitions ?? [];
    return transition?.incident.summary;
  };

  it('says what was compared with what, in a sentence', () => {
    const ratio = { denominator: 'requests', maximum: 0.1 };
    expect([
      summary({ maximumAbsoluteDelta: 20 }, { rows: 10 }, { rows: 50 }),
      summary({ maximumAbsoluteDelta: 0.1 }, { rows: 0.3 }, { rows: 0.1 }),
      summary({ maximumPercentageDelta: 20 }, { rows: 10 }, { rows: 50 }),
      summary({ maximumPercentageDelta: 20 }, { rows: 0 }, { rows: 50 }),
      summary({ zeroExpectation: 'zero' }, { rows: 5 }),
      summary({ zeroExpectation: 'nonzero' }, { rows: 0 }),
      summary({ ratio }, { rows: 2, requests: 10 }),
      summary({ metricType: 'counter', minimum: 5 }, { rows: 100 }, { rows: 103 }),
      summary({ transform: 'log1p', maximum: 1 }, { rows: 3 }),
    ]).toEqual([
      'rows rose by 40 (from 10 to 50), more than 20.',
      'rows fell by 0.2 (from 0.3 to 0.1), more than 0.1.',
      'rows rose by 400 % (from 10 to 50), more than 20 %.',
      'rows rose (from 0 to 50), more than 20 %.',
      'rows is 5 and should be 0.',
      'rows is 0 and should not be.',
      'rows / requests is 0.2, above 0.1.',
      'The increase of rows is 3, below its minimum of 5.',
      'log1p of rows is 1.38629436112, above its maximum of 1.',
    ]);
  });
});
