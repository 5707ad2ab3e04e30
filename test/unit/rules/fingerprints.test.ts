// Which changes of a definition take away what is remembered for it (docs/contract/rules.md): all that decide what violates it.
import { expect, it } from 'vitest';
import type { MeasurementRule } from '../../../src/domain/monitor.ts';
import { compileRules } from '../../../src/domain/rules/compile.ts';
import { foldStates, staleMeasurements } from '../../../src/domain/rules/state.ts';
import { decodeStates, encodeStates } from '../../../src/domain/rules/stored-states.ts';

const RULE: MeasurementRule = {
  minimum: 1,
  maximum: 9,
  maximumAbsoluteDelta: 5,
  maximumPercentageDelta: 50,
  zeroExpectation: 'nonzero',
  ratio: { denominator: 'files', minimum: 1, maximum: 3 },
};

/** The measurements whose states are built again after the change. */
function staleAfter(before: MeasurementRule, after: MeasurementRule): string[] {
  const [old, changed] = [compileRules({ rows: before }), compileRules({ rows: after })];
  const states = foldStates(old, {}, { sequence: 1, atMs: 1, measurements: { rows: 4, files: 2 } });
  return staleMeasurements(changed, decodeStates(changed, encodeStates(old, states)));
}

it.each<[string, MeasurementRule]>([
  ['another type', { metricType: 'counter' }],
  ['another policy for what is missing', { missingPolicy: 'zero' }],
  ['a transform', { transform: 'log1p' }],
  ['another minimum', { minimum: 2 }],
  ['no minimum', { minimum: undefined }],
  ['another maximum', { maximum: 8 }],
  ['another delta', { maximumAbsoluteDelta: 6 }],
  ['another delta in per cent', { maximumPercentageDelta: 51 }],
  ['the other expectation', { zeroExpectation: 'zero' }],
  ['another denominator', { ratio: { denominator: 'bytes', minimum: 1, maximum: 3 } }],
  ['another bound of the ratio', { ratio: { denominator: 'files', minimum: 2, maximum: 3 } }],
  ['no upper bound of the ratio', { ratio: { denominator: 'files', minimum: 1 } }],
])('%s: the state is built again', (_, change) => {
  expect(staleAfter(RULE, { ...RULE, ...change })).toEqual(['rows']);
});

it.each<[string, MeasurementRule]>([
  ['a unit', { unit: 'rows' }],
  ['an action', { ruleAction: { mode: 'inactive', version: 1 } }],
  ['another policy', { rulePolicy: { consecutiveObservations: 3, severity: 'info' } }],
  ['what is the default', { metricType: 'gauge', missingPolicy: 'skip', transform: 'none' }],
])('%s: the state is kept', (_, change) => {
  expect(staleAfter(RULE, { ...RULE, ...change })).toEqual([]);
});
