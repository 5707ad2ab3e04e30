// How far back rules look: the newest 200 successes (docs/contract/rules.md), and what a state of another definition is worth.
import { expect, it } from 'vitest';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import {
  foldStates,
  HISTORY,
  type RuleObservation,
  type RuleStates,
  rebuildStates,
  staleMeasurements,
} from '../../../src/domain/rules/state.ts';
import { openOnes, RuledMonitor } from './ruled-monitor.ts';

const beatsOf = (all: readonly Record<string, number>[]): RuleObservation[] =>
  all.map((measurements, index) => ({ sequence: index + 1, atMs: (index + 1) * 1000, measurements }));

const rules = compileRules({ rows: { minimum: 10, maximumAbsoluteDelta: 5 } });
const kept = (history: readonly RuleObservation[]) =>
  history.reduce<RuleStates>((states, observation) => foldStates(rules, states, observation), {});
const rebuilt = (history: readonly RuleObservation[]) =>
  rebuildStates(rules, {}, staleMeasurements(rules, {}), history);

it('a row of violations counts up to 200, whether it was kept or is built again', () => {
  const history = beatsOf(Array.from({ length: 250 }, () => ({ rows: 1 })));
  const newest = { row: HISTORY, sequence: 250, value: 1 };
  expect(kept(history).rows?.rules.minimum).toEqual({ ...newest, sinceMs: 1_000 });
  // It began as long ago as the history goes: that has not the first 50.
  expect(rebuilt(history).rows?.rules.minimum).toEqual({ ...newest, sinceMs: 51_000 });
  expect(HISTORY).toBe(200);
});

it('a state that is built again knows no value that is older than 200 successes', () => {
  const withGap = (missing: number) =>
    beatsOf([{ rows: 100 }, ...Array.from({ length: missing }, () => ({}))]);
  expect(rebuilt(withGap(199)).rows?.raw).toBe(100);
  expect(rebuilt(withGap(200)).rows?.raw).toBeUndefined();
  expect(kept(withGap(200)).rows?.raw).toBe(100);
});

it('a state of another definition is worth nothing: the next success is judged as the first one', () => {
  const before = kept(beatsOf([{ rows: 100 }, { rows: 1 }]));
  const other = compileRules({ rows: { minimum: 11, maximumAbsoluteDelta: 5 } });
  const [next] = beatsOf([{ rows: 2 }]);
  const after = foldStates(other, before, next as RuleObservation);
  expect(after.rows).toEqual({
    of: other.measurements.get('rows')?.of,
    raw: 2,
    rules: { minimum: { row: 1, sinceMs: 1_000, sequence: 1, value: 2 } },
  });
});

it('the summary of a longer row says that it is at least as long', () => {
  const monitor = new RuledMonitor({ minimum: 10 });
  for (let beat = 0; beat < 201; beat += 1) monitor.beat({ rows: 1 }, { quiet: true });
  const [opened] = monitor.beat({ rows: 1 }).transitions;
  expect(opened?.incident.summary).toBe('rows is 1, below its minimum of 10, at least 200 times in a row.');
});

it('an inactive rule neither ends nor changes an incident that is open', () => {
  const monitor = new RuledMonitor({ minimum: 10 });
  monitor.beat({ rows: 1 });
  monitor.rules = compileRules({
    rows: { minimum: 10, ruleAction: { mode: 'inactive', version: 1 } },
  });
  const [before] = monitor.incidents;
  expect(monitor.beat({ rows: 1 })).toMatchObject({ transitions: [], violations: [{ rule: 'minimum' }] });
  expect(monitor.beat({ rows: 20 })).toMatchObject({ transitions: [], violations: [] });
  expect(monitor.incidents).toEqual([before]);
  expect(openOnes(monitor)).toEqual(['open warning']);
});
