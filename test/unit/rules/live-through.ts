// The evaluator and the reference live through the same, and are compared after each step.
import { expect } from 'vitest';
import type { RuleKind } from '../../../src/domain/rules/rule-kinds.ts';
import { changed, type Step } from './lives.ts';
import { Living } from './living.ts';
import { Reference, sorted } from './reference.ts';
import type { Definitions } from './reference-violations.ts';

const START = Date.UTC(2026, 0, 1);

export function liveThrough(first: Definitions, steps: readonly Step[]): { living: Living; endMs: number } {
  const [living, reference] = [new Living(), new Reference()];
  const both = [living, reference] as const;
  let definitions = first;
  let nowMs = START;
  let sequence = 0;
  let quiet = false;
  const pass = (ms: number) => {
    const untilMs = nowMs + ms;
    if (!quiet) for (const one of both) one.pass(nowMs, untilMs);
    nowMs = untilMs;
  };
  for (const one of both) one.change(definitions, nowMs);
  for (const step of steps) {
    // What is no beat takes a while, so that no row of violations is due at the very moment of what comes after it.
    pass(step.kind === 'beat' ? step.afterSeconds * 1000 : 1);
    if (step.kind === 'quiet') {
      quiet = !quiet;
    } else if (step.kind === 'resolve') {
      const { measurement = '', rule = '' } = living.live[step.place % living.live.length] ?? {};
      if (reference.comesByTime(measurement, rule as RuleKind, nowMs)) continue;
      for (const one of both) one.resolve(measurement, rule);
    } else if (step.kind === 'beat') {
      // In a quiet time nobody can tell a lost state from one whose definition has changed.
      if (step.isLost && !quiet) living.loseStates();
      const observation = { sequence: sequence + 1, atMs: nowMs, measurements: step.measurements };
      const violations = living.beat(observation, quiet);
      expectSame(violations, reference.beat(observation, quiet));
      if (violations === 'refused') pass(1);
      else sequence += 1;
    } else {
      // The live row has one moment for all rules: it cannot tell what waits from what a change leaves to the next beat.
      if (quiet && living.isPending(nowMs)) continue;
      definitions = changed(definitions, step);
      for (const one of both) one.change(definitions, nowMs);
      pass(1);
    }
    expect(sorted(living.incidents)).toEqual(sorted(reference.incidents));
    expect([...living.events].sort()).toEqual([...reference.events].sort());
  }
  return { living, endMs: nowMs };
}

/** But for the rounding of percentages. */
function expectSame(found: ReturnType<Living['beat']>, expected: ReturnType<Living['beat']>): void {
  if (found === 'refused' || expected === 'refused') {
    expect(found).toBe(expected);
    return;
  }
  const rest = (violations: typeof found) => violations.map(({ value: _, ...others }) => others);
  expect(rest(found)).toEqual(rest(expected));
  for (const [index, { value }] of found.entries()) {
    const other = expected[index]?.value ?? Number.NaN;
    expect(Math.abs(value - other)).toBeLessThanOrEqual(Math.abs(other) * 1e-9);
  }
}
