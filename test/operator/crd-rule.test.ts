// The definition of Rule on a real API server: what `kubectl apply` accepts, and how it refuses the rest.
import { afterAll, beforeAll, describe, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { type CrdFixture, GOOD_RULE, openCrdFixture, type Refused } from './crd-fixture.ts';

const goodRules: Record<string, object> = {
  one: { monitorRef: { name: 'backup' }, measurementKey: 'rows', definition: GOOD_RULE },
  all: { selector: {}, measurementKey: 'rows', definition: { ratio: { denominator: 'all', minimum: 1 } } },
  some: {
    selector: {
      matchLabels: { 'example.com/team': 'payments', tier: '' },
      matchExpressions: [
        { key: 'tier', operator: 'In', values: ['a', 'b'] },
        { key: 'example.com/zone', operator: 'NotIn', values: ['c'] },
        { key: 'batch', operator: 'Exists' },
        { key: 'old', operator: 'DoesNotExist' },
      ],
    },
    measurementKey: 'rows',
    definition: { ...GOOD_RULE, rulePolicy: { consecutiveObservations: 3, severity: 'critical' } },
    rollout: 'Replay',
  },
};
const selecting = (matchExpression: object) => ({
  selector: { matchExpressions: [matchExpression] },
  measurementKey: 'rows',
  definition: GOOD_RULE,
});
const badRules: Refused[] = [
  ['for-nobody', { measurementKey: 'rows', definition: GOOD_RULE }, 'Set either monitorRef or selector.'],
  [
    'for-both',
    { monitorRef: { name: 'a' }, selector: {}, measurementKey: 'rows', definition: GOOD_RULE },
    'Set either monitorRef or selector.',
  ],
  [
    'bad-key',
    { selector: {}, measurementKey: 'Rows', definition: GOOD_RULE },
    'Must start with a lower-case',
  ],
  [
    'ratio-itself',
    {
      selector: {},
      measurementKey: 'rows',
      definition: { ratio: { denominator: 'rows', minimum: 1 } },
    },
    'a ratio to itself is always 1',
  ],
  [
    'reversed',
    { selector: {}, measurementKey: 'rows', definition: { minimum: 2, maximum: 1 } },
    'Set minimum to at most maximum.',
  ],
  [
    'bad-rollout',
    { selector: {}, measurementKey: 'rows', definition: GOOD_RULE, rollout: 'Later' },
    'Unsupported value: "Later"',
  ],
  ['in-nothing', selecting({ key: 'a', operator: 'In' }), 'Set values for the operators In and NotIn'],
  [
    'exists-as',
    selecting({ key: 'a', operator: 'Exists', values: ['b'] }),
    'Set values for the operators In and NotIn',
  ],
  ['bad-label', selecting({ key: 'a b', operator: 'Exists' }), 'Use a Kubernetes label key'],
  [
    'bad-value',
    { selector: { matchLabels: { a: 'b c' } }, measurementKey: 'rows', definition: GOOD_RULE },
    'Must be a Kubernetes label value',
  ],
];

describe.skipIf(!hasCluster)('the definition of Rule', () => {
  let fixture: CrdFixture;
  beforeAll(async () => {
    fixture = await openCrdFixture();
  });
  afterAll(() => fixture?.close());

  it('the API server accepts a good Rule without a warning', () => fixture.expectAccepted('Rule', goodRules));

  it('the API server refuses a bad Rule with a sentence that says what to do', () =>
    fixture.expectRefused('Rule', badRules));
});
