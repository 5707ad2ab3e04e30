// The text of the states in a live row: what it keeps, of which definitions, and how short it is.
import { expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { foldStates, type RuleStates, staleMeasurements } from '../../../src/domain/rules/state.ts';
import { decodeStates, encodeStates } from '../../../src/domain/rules/stored-states.ts';

const RULES: Record<string, MeasurementRule> = {
  amount: { minimum: 0, maximum: 10 },
  files: { metricType: 'counter', maximum: 5 },
  rows: { maximumAbsoluteDelta: 5, minimum: 1 },
};

function statesAfter(
  definitions: Record<string, MeasurementRule>,
  beats: Record<string, number>[],
): RuleStates {
  const rules = compileRules(definitions);
  return beats.reduce<RuleStates>(
    (states, measurements, index) =>
      foldStates(rules, states, { sequence: index + 1, atMs: index, measurements }),
    {},
  );
}

it.each<[string, Record<string, number>[]]>([
  ['nothing was sent', [{}]],
  ['only bounds had a value', [{ amount: 3 }]],
  ['a counter has no increase yet', [{ files: 3, rows: 2 }]],
  [
    'a counter has an increase, and rules of two measurements are violated',
    [{ files: 3 }, { amount: -1, files: 30, rows: 0 }],
  ],
  ['the last measurement alone is violated', [{ rows: 3 }, { amount: 1, rows: 90 }]],
])('states are read as they were written: %s', (_, beats) => {
  const rules = compileRules(RULES);
  const states = statesAfter(RULES, beats);
  const read = decodeStates(rules, encodeStates(rules, states));
  expect(read).toEqual(states);
  expect(staleMeasurements(rules, read)).toEqual([]);
});

it('another definition keeps the states of the measurements that it has too, and of no others', () => {
  const states = statesAfter(RULES, [{ amount: -1, files: 3, rows: 0 }]);
  const changed = compileRules({ ...RULES, amount: { minimum: -5 }, other: { maximum: 1 } });
  const read = decodeStates(changed, encodeStates(compileRules(RULES), states));
  expect(read).toEqual({ files: states.files, rows: states.rows });
  expect(staleMeasurements(changed, read)).toEqual(['amount', 'other']);
  const { rows: _, ...without } = RULES;
  const rest = encodeStates(
    compileRules(without),
    decodeStates(compileRules(without), encodeStates(changed, read)),
  );
  expect(decodeStates(compileRules(RULES), rest)).toEqual({ files: states.files });
});

it('the same rule under another key has a state of its own', () => {
  const rule = { minimum: 1 };
  const [rows, files] = [compileRules({ rows: rule }), compileRules({ files: rule })];
  expect(decodeStates(files, encodeStates(rows, statesAfter({ rows: rule }, [{ rows: 0 }])))).toEqual({});
});

it('a monitor that has no rule remembers nothing', () => {
  const rules = compileRules({ rows: { metricType: 'count' } });
  expect(encodeStates(rules, {})).toBeUndefined();
  expect(decodeStates(rules, undefined)).toEqual({});
});

it('the text of eight rules that are kept has the values that they look back at, and eight characters for each', () => {
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const definitions = Object.fromEntries(
    keys.map((key, index) => [key, index % 2 === 0 ? { minimum: 0 } : { maximumAbsoluteDelta: 9 }]),
  );
  const rules = compileRules(definitions);
  const states = statesAfter(definitions, [Object.fromEntries(keys.map((key, index) => [key, index]))]);
  expect(encodeStates(rules, states)).toBe(JSON.stringify({ of: rules.fingerprints, raw: [1, 3, 5, 7] }));
  expect(rules.fingerprints).toHaveLength(64);
});

const ALL_RULES: MeasurementRule = {
  minimum: 10,
  maximum: 20,
  maximumAbsoluteDelta: 1,
  maximumPercentageDelta: 1,
  zeroExpectation: 'zero',
  ratio: { denominator: 'k0', maximum: 0 },
};

it('64 measurements with six violated rules each are read as they were written, whatever the numbers', () => {
  const keys = Array.from({ length: 64 }, (_, place) => `k${place}`);
  const definitions = Object.fromEntries(
    keys.map((key, place) => [
      key,
      place % 3 === 0 ? { ...ALL_RULES, metricType: 'counter' as const } : ALL_RULES,
    ]),
  );
  const numbers = [Number.MAX_VALUE, -Number.MAX_VALUE, Number.MIN_VALUE, -0, 0.1 + 0.2, 1e21, -1e-7];
  const beatOf = (shift: number) =>
    Object.fromEntries(
      keys.map((key, place) => {
        const value = numbers[(place + shift) % numbers.length] ?? 0;
        return [key, place % 3 === 0 ? Math.round(Math.abs(value)) : value];
      }),
    );
  const states = statesAfter(definitions, [0, 1, 2, 3].map(beatOf));
  const rows = Object.values(states).flatMap((state) => Object.values(state.rules));
  expect(rows.length).toBeGreaterThan(200);
  const rules = compileRules(definitions);
  const read = decodeStates(rules, encodeStates(rules, states));
  expect(staleMeasurements(rules, read)).toEqual([]);
  // JSON has no -0, and nothing compares it with 0.
  expect(JSON.stringify(read)).toBe(JSON.stringify(inOrderOf(read, states)));
});

/** With the keys in the order of `like`. */
function inOrderOf(like: RuleStates, states: RuleStates): RuleStates {
  return Object.fromEntries(Object.keys(like).map((key) => [key, states[key] as never]));
}

it.each([
  ['cut off', (text: string) => text.slice(0, -9)],
  ['empty', () => ''],
  ['no object', () => 'null'],
  ['without fingerprints', () => '{"raw":[3]}'],
  ['of other parts', (text: string) => text.replace('"raw":[', '"raw":{"0":').replace(']', '}')],
])('of a text that is %s nothing is known, so that all is built again', (_, spoil) => {
  const rules = compileRules(RULES);
  const text = encodeStates(rules, statesAfter(RULES, [{ files: 3, rows: 0 }])) ?? '';
  expect(spoil(text)).not.toBe(text);
  expect(decodeStates(rules, spoil(text))).toEqual({});
});

it.each([
  ['a value that is no number', 'files', (text: string) => text.replace('"raw":[3,', '"raw":["3",')],
  ['a value past all numbers', 'files', (text: string) => text.replace('"raw":[3,', '"raw":[1e999,')],
  ['a row that is none', 'rows', (text: string) => text.replace(/"minimum":\{[^}]*\}/, '"minimum":1')],
  ['a row without its beginning', 'rows', (text: string) => text.replace(/"sinceMs":0,/, '')],
  ['rows that are none', 'rows', (text: string) => text.replace(/"rules":\[(.*)\]/, '"rules":[null,7]')],
])('of a measurement with %s nothing is known, and of the others all', (_, key, spoil) => {
  const rules = compileRules(RULES);
  const states = statesAfter(RULES, [{ amount: 3, files: 3, rows: 0 }]);
  const text = encodeStates(rules, states) ?? '';
  expect(spoil(text)).not.toBe(text);
  const read = decodeStates(rules, spoil(text));
  const { [key]: _without, ...others } = states;
  expect(read).toEqual(others);
  expect(staleMeasurements(rules, read)).toEqual([key]);
});
