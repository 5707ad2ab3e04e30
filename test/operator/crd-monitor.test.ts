// The definition of Monitor on a real API server: what `kubectl apply` accepts, and how it refuses the rest.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { type CrdFixture, GOOD_RULE, openCrdFixture, type Refused } from './crd-fixture.ts';

const goodMonitors: Record<string, object> = {
  learned: {},
  whole: {
    name: 'Nightly backup – ü',
    description: 'Two\nlines',
    labels: { 'example.com/team': 'payments', tier: '' },
    intervalSeconds: 86_400,
    graceSeconds: 1800,
    jurisdiction: 'eu',
    awaitFirstBeat: true,
    maxRuntimeSeconds: 7200,
    recoveryBeats: 1,
    missedBeatsToOpen: 2,
    lifecycle: 'active',
    maintenance: { startsAt: '2026-01-01T00:00:00Z', endsAt: '2026-01-31T00:00:00Z', reason: 'move' },
    dependsOn: [{ name: 'postgres' }, { name: 'queue' }],
    callback: { kind: 'named', callbackRef: { name: 'oncall' } },
    measurements: {
      rows: { ...GOOD_RULE, maximum: 10, unit: 'rows', ruleAction: { mode: 'active', version: 1 } },
      share: { ratio: { denominator: 'rows', maximum: 0.5 }, transform: 'log1p', disabledRules: ['minimum'] },
      slow: { maximum: 5, rulePolicy: { consecutiveObservations: 3, severity: 'critical' } },
      late: {
        zeroExpectation: 'nonzero',
        rulePolicy: {
          version: 1,
          transientConsequence: 'none',
          sustainedConsequence: 'warning',
          sustainedCriterion: { kind: 'elapsed_time', seconds: 60 },
        },
      },
    },
    workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name: 'backup' },
    publishSecretName: 'nightly-backup-beat',
    deletionPolicy: 'Orphan',
  },
  scheduled: { schedule: { cron: '0 2 * * 1-5', timeZone: 'Europe/Berlin' }, callback: { kind: 'disabled' } },
  inline: { callback: { kind: 'inline', url: 'http://127.0.0.1:9000/hook?a=b' } },
};

const window = { startsAt: '2026-01-01T00:00:00Z', endsAt: '2026-01-31T00:00:00Z' };
const measured = (definition: object) => ({ measurements: { rows: definition } });
const badMonitors: Refused[] = [
  [
    'two-cadences',
    { intervalSeconds: 60, schedule: { cron: '* * * * *' } },
    'Set either intervalSeconds or schedule, not both.',
  ],
  ['short-interval', { intervalSeconds: 59 }, 'should be greater than or equal to 60'],
  ['fraction', { intervalSeconds: 60.5 }, 'must be of type integer'],
  ['short-grace', { graceSeconds: 59 }, 'should be greater than or equal to 60'],
  ['padded-name', { name: ' padded' }, 'Remove control characters from the name'],
  ['bad-cron', { schedule: { cron: '@daily' } }, 'five fields'],
  ['bad-zone', { schedule: { cron: '* * * * *', timeZone: '+02:00' } }, 'IANA time zone'],
  ['bad-jurisdiction', { jurisdiction: 'mars' }, 'Unsupported value: "mars"'],
  ['bad-label-key', { labels: { '-x': 'a' } }, 'Use Kubernetes label keys'],
  ['bad-label-value', { labels: { x: 'a b' } }, 'Must be a Kubernetes label value'],
  [
    'reversed-window',
    { maintenance: { ...window, endsAt: window.startsAt } },
    'Set endsAt to a time after startsAt.',
  ],
  [
    'long-window',
    { maintenance: { ...window, endsAt: '2026-01-31T00:00:01Z' } },
    'at most 30 days after startsAt',
  ],
  ['depends-twice', { dependsOn: [{ name: 'a' }, { name: 'a' }] }, 'Duplicate value'],
  [
    'depends-on-many',
    { dependsOn: Array.from({ length: 17 }, (_, index) => ({ name: `a${index}` })) },
    'must have at most 16 items',
  ],
  ['named-without', { callback: { kind: 'named' } }, 'the kind named needs callbackRef'],
  [
    'named-twice',
    { callback: { kind: 'named', alias: 'a', callbackRef: { name: 'a' } } },
    'Set either callbackRef or alias, not both.',
  ],
  ['stray-alias', { callback: { kind: 'disabled', alias: 'a' } }, 'Remove callbackRef and alias'],
  ['inline-without', { callback: { kind: 'inline' } }, 'Set url: the kind inline needs it.'],
  ['stray-url', { callback: { kind: 'disabled', url: 'https://example.com' } }, 'Remove url'],
  [
    'url-user',
    { callback: { kind: 'inline', url: 'https://me@example.com' } },
    'without user, password, fragment',
  ],
  [
    'url-fragment',
    { callback: { kind: 'inline', url: 'https://example.com/#a' } },
    'without user, password, fragment',
  ],
  ['url-scheme', { callback: { kind: 'inline', url: 'ftp://example.com' } }, 'Must be an address such as'],
  ['bad-key', { measurements: { Rows: GOOD_RULE } }, 'Name each measurement with a lower-case letter'],
  ['reversed-bounds', measured({ minimum: 2, maximum: 1 }), 'Set minimum to at most maximum.'],
  ['ratio-alone', measured({ ratio: { denominator: 'all' } }), 'Set minimum, maximum or both.'],
  ['ratio-itself', measured({ ratio: { denominator: 'rows', minimum: 1 } }), 'a ratio to itself is always 1'],
  [
    'ratio-reversed',
    measured({ ratio: { denominator: 'all', minimum: 2, maximum: 1 } }),
    'Set minimum to at most maximum.',
  ],
  ['active-without', measured({ ruleAction: { mode: 'active', version: 1 } }), 'Set at least one rule'],
  [
    'active-disabled',
    measured({ ...GOOD_RULE, disabledRules: ['minimum'], ruleAction: { mode: 'active', version: 1 } }),
    'Set at least one rule',
  ],
  ['log-of-zero', measured({ zeroExpectation: 'zero', transform: 'log1p' }), 'log1p does not apply'],
  [
    'mixed-policy',
    measured({ ...GOOD_RULE, rulePolicy: { severity: 'info', version: 1 } }),
    'all of them and none of the others',
  ],
  // The API server drops a null before it validates: it counts as left out.
  [
    'null-rule',
    measured({ minimum: null, ruleAction: { mode: 'active', version: 1 } }),
    'Set at least one rule',
  ],
  ['text-bound', measured({ maximum: '1' }), 'must be of type number'],
  ['negative-delta', measured({ maximumAbsoluteDelta: -1 }), 'should be greater than or equal to 0'],
  [
    'bad-workload',
    { workloadRef: { apiVersion: 'apps/v1', kind: 'CronJob', name: 'a' } },
    'Set apiVersion to batch/v1',
  ],
  [
    'own-schedule',
    { workloadRef: { apiVersion: 'batch/v1', kind: 'CronJob', name: 'a' }, schedule: { cron: '0 2 * * *' } },
    'Remove schedule: a Monitor with a workloadRef to a CronJob takes the schedule of the CronJob.',
  ],
  ['bad-secret', { publishSecretName: 'Upper' }, 'Must be the name of a Kubernetes object'],
  ['bad-policy', { deletionPolicy: 'archive' }, 'Unsupported value: "archive"'],
];

describe.skipIf(!hasCluster)('the definition of Monitor', () => {
  let fixture: CrdFixture;
  beforeAll(async () => {
    fixture = await openCrdFixture();
  });
  afterAll(() => fixture?.close());

  it('the API server accepts a good Monitor without a warning', () =>
    fixture.expectAccepted('Monitor', goodMonitors));

  it('the API server refuses a bad Monitor with a sentence that says what to do', () =>
    fixture.expectRefused('Monitor', badMonitors));

  it('kubectl apply refuses an unknown field', async () => {
    const answer = await fixture.createAll('Monitor', [['typo', { intervalSecond: 60 }]]);
    expect(answer.stderr).toContain('unknown field "spec.intervalSecond"');
  });

  it('the jurisdiction of a Monitor cannot be set, changed or removed later', async () => {
    const apply = (name: string, spec: object) => fixture.apply('Monitor', name, spec);
    expect((await apply('resident', { jurisdiction: 'eu' })).code).toBe(0);
    expect((await apply('anywhere', {})).code).toBe(0);
    expect((await apply('resident', { jurisdiction: 'us' })).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('resident', {})).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('anywhere', { jurisdiction: 'eu' })).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('resident', { jurisdiction: 'eu', graceSeconds: 60 })).code).toBe(0);
  });

  it('the API server keeps every field of a status', async () => {
    expect((await fixture.apply('Monitor', 'status', {})).code).toBe(0);
    const at = '2026-01-01T00:00:00Z';
    const status = {
      observedGeneration: 3,
      projectId: '01920000-0000-7000-8000-000000000001',
      monitorId: 'mon_1',
      configurationVersion: 7,
      health: 'down',
      lifecycle: 'active',
      lastBeatAt: at,
      nextDeadlineAt: at,
      cadence: { source: 'configured', intervalSeconds: 86_400 },
      openIncidents: [
        { incidentId: 'inc_1', kind: 'missed_deadline', severity: 'critical', state: 'open', openedAt: at },
      ],
      publishSecretRef: { name: 'status-beat' },
      appliedRules: [{ name: 'rows-positive', uid: 'u1', measurementKey: 'rows', definitionHash: 'h1' }],
      ownedFields: ['intervalSeconds', 'measurements.rows'],
      display: { deadline: `missed ${at}`, interval: '1d', incident: 'missed_deadline', callback: 'oncall' },
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Ready',
          message: '',
          observedGeneration: 3,
          lastTransitionTime: at,
        },
      ],
    };
    const patched = await fixture.kubectl([
      'patch',
      'monitor',
      'status',
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status }),
      '-o',
      'json',
    ]);
    expect(patched.stderr).toBe('');
    expect(JSON.parse(patched.stdout).status).toEqual(status);
  });
});
