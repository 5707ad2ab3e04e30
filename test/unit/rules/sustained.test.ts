// What a sustained policy does to the incidents of rules, by beats and by the time alone, step by step.
import { describe, expect, it } from 'vitest';
import { events, MINUTE, openOnes, RuledMonitor, START, sustained } from './ruled-monitor.ts';

describe('a sustained policy', () => {
  const byCount = { kind: 'observations', observations: 3 } as const;
  const byTime = { kind: 'elapsed_time', seconds: 600 } as const;

  it('opens at the first violation, and gets graver when as many came in a row', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: sustained(byCount),
    });
    expect(events(monitor.beat({ rows: 11 }))).toEqual(['incident.opened']);
    expect(openOnes(monitor)).toEqual(['open info']);
    monitor.beat({ rows: 11 });
    const { transitions } = monitor.beat({ rows: 11 });
    expect(transitions).toMatchObject([
      {
        incident: { severity: 'critical', violationCount: 3 },
        entries: [{ type: 'escalated', detail: { from: 'info', to: 'critical' } }],
        event: { type: 'incident.escalated', previousState: 'open' },
      },
    ]);
  });

  it('opens nothing before the criterion, where the transient consequence is none', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: { ...sustained(byCount, 'none'), sustainedConsequence: 'warning' },
    });
    monitor.beat({ rows: 11 });
    expect(monitor.beat({ rows: 11 }).transitions).toEqual([]);
    expect(events(monitor.beat({ rows: 11 }))).toEqual(['incident.opened']);
  });

  it('gets graver by the time alone, once', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: sustained(byTime),
    });
    monitor.beat({ rows: 11 });
    expect(monitor.escalatesMs).toBe(START + 11 * MINUTE);
    expect(monitor.pass(START + 11 * MINUTE - 1)).toEqual([]);
    expect(events({ transitions: monitor.pass(START + 11 * MINUTE) })).toEqual(['incident.escalated']);
    expect(monitor.escalatesMs).toBeUndefined();
    expect(events(monitor.beat({ rows: 1 }))).toEqual(['incident.recovered']);
  });

  it('opens by the time alone, and not again when a person has resolved it', () => {
    const monitor = new RuledMonitor({
      maximum: 10,
      rulePolicy: sustained(byTime, 'none'),
    });
    monitor.beat({ rows: 11 });
    const [opened] = monitor.pass(START + 12 * MINUTE);
    expect(opened?.incident).toMatchObject({
      openSequence: 1,
      summary: 'rows is 11, above its maximum of 10, for 10 min.',
    });
    monitor.incidents = [];
    monitor.beat({});
    expect(monitor.escalatesMs).toBeUndefined();
    expect(events(monitor.beat({ rows: 11 }))).toEqual(['incident.opened']);
  });
});

describe('the time', () => {
  it('opens what is due at its moment, and not again what a person has resolved before', () => {
    const rule = (seconds: number) =>
      ({ maximum: 10, rulePolicy: sustained({ kind: 'elapsed_time', seconds }, 'none') }) as const;
    const monitor = new RuledMonitor(rule(60), { files: rule(120) });
    monitor.beat({ rows: 11, files: 11 });
    expect(monitor.pass(START + 2 * MINUTE).map(({ incident }) => incident.measurement)).toEqual(['rows']);
    expect(monitor.escalatesMs).toBe(START + 3 * MINUTE);
    monitor.incidents = [];
    expect(monitor.pass(START + 3 * MINUTE).map(({ incident }) => incident.measurement)).toEqual(['files']);
  });
});
