// The custom resource definitions on a real API server: what `kubectl apply` accepts, and how it refuses the rest.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { crdManifests } from '../../src/contract/crd/crd-manifests.ts';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { type Outcome, runProgram } from '../support/run-program.ts';
import { waitFor } from '../support/wait-for.ts';

const namespace = `crd-${randomUUID().slice(0, 8)}`;
let program = 'kubectl';

function kubectl(args: string[], input?: string): Promise<Outcome> {
  return runProgram(program, ['--kubeconfig', adminKubeconfig, '--namespace', namespace, ...args], { input });
}

type Kind = 'Monitor' | 'Callback' | 'Rule';

function manifest(kind: Kind, name: string, spec: object): string {
  return stringify({ apiVersion: 'beatkeeper.dev/v1alpha1', kind, metadata: { name }, spec });
}

/** One call for many objects: kubectl continues after a refusal. */
function createAll(manifests: string[]): Promise<Outcome> {
  return kubectl(['create', '--dry-run=server', '-o', 'name', '-f', '-'], manifests.join('---\n'));
}

/** The messages of kubectl about each object, by name. */
function refusals(words: string): Map<string, string> {
  const named = words
    .split('\n')
    .map((line) => [/" is invalid: /.test(line) && /"([^"]+)" is invalid/.exec(line)?.[1], line]);
  return new Map(named.filter((entry): entry is [string, string] => typeof entry[0] === 'string'));
}

const rule = { metricType: 'gauge', minimum: 1 };
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
      rows: { ...rule, maximum: 10, unit: 'rows', ruleAction: { mode: 'active', version: 1 } },
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
const badMonitors: [name: string, spec: object, words: string][] = [
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
  ['bad-key', { measurements: { Rows: rule } }, 'Name each measurement with a lower-case letter'],
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
    measured({ ...rule, disabledRules: ['minimum'], ruleAction: { mode: 'active', version: 1 } }),
    'Set at least one rule',
  ],
  ['log-of-zero', measured({ zeroExpectation: 'zero', transform: 'log1p' }), 'log1p does not apply'],
  [
    'mixed-policy',
    measured({ ...rule, rulePolicy: { severity: 'info', version: 1 } }),
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

const url = 'https://example.com/alerts';
const goodCallbacks: Record<string, object> = {
  webhook: { url },
  'secret-url': { kind: 'webhook', urlSecretRef: { name: 'chat', key: 'url' }, organizationDefault: true },
  rotated: { url, rotation: { every: '90d', overlapSeconds: 900 }, signingSecretName: 'keys' },
  person: { kind: 'relay_subscriber', relay: { actorId: 'me', notifierId: 'push' } },
  group: { kind: 'relay_group', relayGroup: { notifierId: 'push' }, lifecycle: 'disabled' },
};
const badCallbacks: [name: string, spec: object, words: string][] = [
  ['nowhere', {}, 'Set url, or urlSecretRef where the address is a secret'],
  [
    'two-urls',
    { url, urlSecretRef: { name: 'chat', key: 'url' } },
    'Set either url or urlSecretRef, not both.',
  ],
  [
    'relay-with-url',
    { kind: 'relay_group', url, relayGroup: { notifierId: 'a' } },
    'Remove url and urlSecretRef',
  ],
  ['no-relay', { kind: 'relay_subscriber' }, 'Set relay for the kind relay_subscriber'],
  ['stray-group', { url, relayGroup: { notifierId: 'a' } }, 'Set relayGroup for the kind relay_group'],
  [
    'relay-rotation',
    { kind: 'relay_group', relayGroup: { notifierId: 'a' }, rotation: { every: '1d' } },
    'Remove rotation and signingSecretName',
  ],
  ['rotation-minutes', { url, rotation: { every: '90m' } }, 'Set a number of hours or days'],
  ['rotation-years', { url, rotation: { every: '366d' } }, 'Set at most 365d.'],
  ['rotation-hours', { url, rotation: { every: '8761h' } }, 'Set at most 365d.'],
  ['long-overlap', { url, rotation: { overlapSeconds: 901 } }, 'should be less than or equal to 900'],
  ['bad-alias', { url, alias: 'a.b' }, 'Must start with a letter or digit'],
];

const goodRules: Record<string, object> = {
  one: { monitorRef: { name: 'backup' }, measurementKey: 'rows', definition: rule },
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
    definition: { ...rule, rulePolicy: { consecutiveObservations: 3, severity: 'critical' } },
    rollout: 'Replay',
  },
};
const selecting = (matchExpression: object) => ({
  selector: { matchExpressions: [matchExpression] },
  measurementKey: 'rows',
  definition: rule,
});
const badRules: [name: string, spec: object, words: string][] = [
  ['for-nobody', { measurementKey: 'rows', definition: rule }, 'Set either monitorRef or selector.'],
  [
    'for-both',
    { monitorRef: { name: 'a' }, selector: {}, measurementKey: 'rows', definition: rule },
    'Set either monitorRef or selector.',
  ],
  ['bad-key', { selector: {}, measurementKey: 'Rows', definition: rule }, 'Must start with a lower-case'],
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
    { selector: {}, measurementKey: 'rows', definition: rule, rollout: 'Later' },
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
    { selector: { matchLabels: { a: 'b c' } }, measurementKey: 'rows', definition: rule },
    'Must be a Kubernetes label value',
  ],
];

describe.skipIf(!hasCluster)('custom resource definitions', () => {
  beforeAll(async () => {
    const folder = await findControlPlaneBinaries(() => undefined);
    const found = folder === undefined ? '' : join(folder, 'kubectl');
    if (found && existsSync(found)) program = found;
    const created = await kubectl(['create', 'namespace', namespace]);
    expect(created.stderr).toBe('');
  });
  afterAll(async () => {
    await kubectl(['delete', 'monitors,callbacks,rules', '--all', '--wait=false']);
    await kubectl(['delete', 'namespace', namespace, '--wait=false']);
  });

  it.each([
    ['Monitor', goodMonitors],
    ['Callback', goodCallbacks],
    ['Rule', goodRules],
  ] as const)('the API server accepts a good %s without a warning', async (kind, good) => {
    const answer = await createAll(Object.entries(good).map(([name, spec]) => manifest(kind, name, spec)));
    expect(answer.stderr).toBe('');
    expect(answer.stdout.trim().split('\n')).toHaveLength(Object.keys(good).length);
  });

  it.each([
    ['Monitor', badMonitors],
    ['Callback', badCallbacks],
    ['Rule', badRules],
  ] as const)('the API server refuses a bad %s with a sentence that says what to do', async (kind, bad) => {
    const answer = await createAll(bad.map(([name, spec]) => manifest(kind, name, spec)));
    expect(answer.stdout).toBe('');
    const words = refusals(answer.stderr);
    for (const [name, , expected] of bad)
      expect([name, words.get(name)]).toEqual([name, expect.stringContaining(expected)]);
  });

  it('kubectl apply refuses an unknown field', async () => {
    const answer = await createAll([manifest('Monitor', 'typo', { intervalSecond: 60 })]);
    expect(answer.stderr).toContain('unknown field "spec.intervalSecond"');
  });

  it('the jurisdiction of a Monitor cannot be set, changed or removed later', async () => {
    const apply = (name: string, spec: object) =>
      kubectl(['apply', '-f', '-'], manifest('Monitor', name, spec));
    expect((await apply('resident', { jurisdiction: 'eu' })).code).toBe(0);
    expect((await apply('anywhere', {})).code).toBe(0);
    expect((await apply('resident', { jurisdiction: 'us' })).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('resident', {})).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('anywhere', { jurisdiction: 'eu' })).stderr).toContain('Leave jurisdiction as it is');
    expect((await apply('resident', { jurisdiction: 'eu', graceSeconds: 60 })).code).toBe(0);
  });

  it('the kind of a Callback cannot be changed, and may be spelled out later', async () => {
    const apply = (spec: object) => kubectl(['apply', '-f', '-'], manifest('Callback', 'oncall', spec));
    expect((await apply({ url })).code).toBe(0);
    expect((await apply({ kind: 'webhook', url })).code).toBe(0);
    const changed = await apply({ kind: 'relay_group', relayGroup: { notifierId: 'a' } });
    expect(changed.stderr).toContain('Leave kind as it is');
  });

  it('kubectl get knows the short names and the category, and shows the documented columns', async () => {
    const columns = async (args: string[]) =>
      (await kubectl(['get', ...args])).stdout
        .split('\n')[0]
        ?.trim()
        .split(/\s{2,}/);
    expect((await kubectl(['apply', '-f', '-'], manifest('Monitor', 'shown', {}))).code).toBe(0);
    expect((await kubectl(['apply', '-f', '-'], manifest('Callback', 'shown', { url }))).code).toBe(0);
    const narrow = ['NAME', 'HEALTH', 'INTERVAL', 'LAST BEAT', 'NEXT DEADLINE', 'INCIDENT', 'READY', 'AGE'];
    expect(await columns(['mon', 'shown'])).toEqual(narrow);
    expect(await columns(['mon', 'shown', '-o', 'wide'])).toEqual([
      ...narrow.slice(0, -1),
      'REASON',
      'AGE',
      'MONITOR ID',
      'LIFECYCLE',
      'CALLBACK',
    ]);
    expect(await columns(['cb', 'shown'])).toEqual([
      'NAME',
      'KIND',
      'LIFECYCLE',
      'DEFAULT',
      'LAST DELIVERY',
      'READY',
      'AGE',
    ]);
    const shown = { selector: {}, measurementKey: 'rows', definition: rule };
    expect((await kubectl(['apply', '-f', '-'], manifest('Rule', 'shown', shown))).code).toBe(0);
    expect(await columns(['brule', 'shown'])).toEqual([
      'NAME',
      'MEASUREMENT',
      'ROLLOUT',
      'MONITORS',
      'READY',
      'AGE',
    ]);
    const both = (await kubectl(['get', 'beatkeeper', '-o', 'name'])).stdout;
    expect(both).toContain('monitor.beatkeeper.dev/shown');
    expect(both).toContain('callback.beatkeeper.dev/shown');
    expect(both).toContain('rule.beatkeeper.dev/shown');
  });

  it('the API server keeps every field of a status', async () => {
    expect((await kubectl(['apply', '-f', '-'], manifest('Monitor', 'status', {}))).code).toBe(0);
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
    const patched = await kubectl([
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

  it('kubectl explain describes every field, also the nested ones', async () => {
    const tops = ['monitors', 'monitors.spec', 'monitors.status', 'callbacks.spec'];
    const fields = [
      ...tops,
      'monitors.spec.measurements.ratio',
      'callbacks.status.alias',
      'rules.spec.selector.matchExpressions',
      'rules.spec.definition.ratio',
      'rules.status.replay.monitors',
    ];
    for (const field of fields) {
      // The API server publishes the schema of a definition some time after it serves the objects.
      const words = await waitFor(
        async () => {
          const { code, stdout } = await kubectl(['explain', field]);
          return code === 0 ? stdout : undefined;
        },
        { what: `kubectl explains ${field}` },
      );
      expect(words).toMatch(/DESCRIPTION:\n +[A-Z]/);
      expect(words).not.toMatch(/<no description>|<empty>/);
    }
  });

  it('the API server accepts definitions with the lowered minimums of a development run', async () => {
    const lowered = stringify(crdManifests({ minimumIntervalSeconds: 1 })['monitors.yaml']);
    const answer = await kubectl(['apply', '--dry-run=server', '-f', '-'], lowered);
    expect(answer.code).toBe(0);
  });
});
