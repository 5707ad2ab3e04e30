// Each cell of the table in cells.ts, beat by beat.
import { describe, expect, it } from 'vitest';
import { measurementRuleFaults } from '../../../src/contract/resources/measurement-rule.ts';
import { hasEnded, type Incident } from '../../../src/domain/incident.ts';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { findRuleFaults } from '../../../src/domain/rules/faults.ts';
import { judgeBeat } from '../../../src/domain/rules/judge.ts';
import { RULE_KINDS } from '../../../src/domain/rules/rule-kinds.ts';
import type { RuleStates, Violation } from '../../../src/domain/rules/state.ts';
import { AS_SENT, BEATS, BY_COUNT, BY_TIME, CONSECUTIVE, readCells } from './cells.ts';

const START = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;
const cells = readCells();

interface Lived {
  /** Of each beat: undefined where it is refused. */
  violations: (Violation[] | undefined)[];
  /** What is open after each beat, as cells.ts writes it. */
  open: string;
}

function live(rule: MeasurementRule): Lived {
  const rules = compileRules({ rows: rule });
  let states: RuleStates = {};
  let incident: Incident | undefined;
  let open = '';
  const violations = BEATS.map((measurements, index) => {
    const isRefused = findRuleFaults(rules, measurements).length > 0;
    let found: Violation[] | undefined;
    if (!isRefused) {
      const observation = { sequence: index + 1, atMs: START + index * MINUTE, measurements };
      const judged = judgeBeat(rules, states, incident ? [incident] : [], observation, { quiet: false });
      states = judged.states;
      found = judged.violations;
      const last = judged.transitions.at(-1)?.incident ?? incident;
      incident = last && !hasEnded(last) ? last : undefined;
    }
    open += signOf(incident);
    return found;
  });
  return { violations, open };
}

function signOf(incident: Incident | undefined): string {
  if (!incident) return '-';
  if (incident.state === 'recovering') return 'r';
  return incident.severity === 'critical' ? 'C' : 'i';
}

describe('the cells', () => {
  it('are all there, each judged by the three policies', () => {
    const judged = cells.filter(({ compared }) => compared.length > 0);
    const kinds = RULE_KINDS.flatMap((kind) => (kind === 'zeroExpectation' ? ['zero', 'nonzero'] : [kind]));
    const all = kinds.flatMap((kind) =>
      ['none', 'log1p'].flatMap((transform) =>
        [...AS_SENT, 'counter'].flatMap((type) =>
          ['skip', 'zero', 'reject'].map((missing) => [kind, transform, type, missing].join(', ')),
        ),
      ),
    );
    expect(judged.map(({ title }) => title).sort()).toEqual(all.sort());
    expect(all).toHaveLength(7 * 2 * 6 * 3);
    for (const { title, compared, open } of judged) {
      const columns = [compared.length, ...open.map((signs) => signs.length)];
      expect(columns, title).toEqual(Array(4).fill(BEATS.length));
    }
  });

  for (const { title, rule, kind, compared, open } of cells) {
    if (compared.length === 0) {
      it(`${title}: the contract refuses it`, () => {
        expect(measurementRuleFaults(rule).map(({ code }) => code)).toEqual(['transform_not_applicable']);
      });
      continue;
    }
    it(title, () => {
      expect(measurementRuleFaults(rule, 'rows')).toEqual([]);
      const policies = [CONSECUTIVE, BY_COUNT, BY_TIME].map((rulePolicy) => live({ ...rule, rulePolicy }));
      for (const { violations } of policies) {
        expect(violations.map((found) => (found ? found.length : 'R'))).toEqual(
          compared.map((sign) => (sign === 'R' ? 'R' : Number(!['.', '-'].includes(sign)))),
        );
        for (const [index, sign] of compared.entries()) {
          const [violation] = violations[index] ?? [];
          if (!violation) continue;
          expect(violation).toMatchObject({ measurement: 'rows', rule: kind });
          if (sign === 'MAX') expect(violation.value).toBe(Number.MAX_VALUE);
          else expect(violation.value).toBeCloseTo(Number(sign), 6);
        }
      }
      expect(policies.map((lived) => lived.open)).toEqual(open);
      // An inactive rule is violated by the same beats, and opens nothing.
      const inactive = live({ ...rule, rulePolicy: BY_COUNT, ruleAction: { mode: 'inactive', version: 1 } });
      expect(inactive).toEqual({ violations: policies[1]?.violations, open: '------' });
    });
  }

  it('`.` and `-` differ: what is not evaluated ends nothing', () => {
    // Two rows of the table that differ in beat 3 alone, and what is open after it.
    const open = (missingPolicy: 'skip' | 'zero') =>
      live({ maximum: 9, missingPolicy, rulePolicy: BY_TIME }).open;
    expect([open('skip'), open('zero')]).toEqual(['iii---', 'ii----']);
  });
});
