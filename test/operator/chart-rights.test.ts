// The operator does its work with the rights that the chart gives it, and uses every one of them.
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { LeaseElector } from '../../src/kube/lease-elector.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { type Manifest, NAMESPACE, render, requireHelm } from '../chart/helm.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ago, jobFixture } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

interface Rule {
  apiGroups: string[];
  resources: string[];
  verbs: string[];
}

const helm = hasCluster ? await requireHelm() : undefined;
const ACCOUNT = 'beatkeeper-operator';

/** Rights that a run without races does not use: after a conflict, and where the API server wants it. */
const SELDOM = [
  'get beatkeeper.dev/monitors',
  'get beatkeeper.dev/callbacks',
  'get beatkeeper.dev/rules',
  'update beatkeeper.dev/monitors/finalizers',
  'update beatkeeper.dev/callbacks/finalizers',
];

describe.skipIf(helm === undefined)('the rights of the operator in the chart', () => {
  let fixture: OperatorFixture;
  let manifests: Manifest[];
  const used = new Set<string>();
  const refused: string[] = [];
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    const all = await render(helm ?? '', { operator: { logs: { enabled: true } } });
    const isRight = ({ kind, metadata }: Manifest) =>
      metadata.name.includes('operator') && /^(ClusterRole|Role|ServiceAccount|ValidatingAdm)/.test(kind);
    manifests = all.filter(isRight);
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
    const text = [namespace, ...manifests].map((one) => stringify(one)).join('---\n');
    const args = ['apply', '--server-side', '--namespace', NAMESPACE, '--filename', '-'];
    expect(await fixture.kubectl(args, text)).toMatchObject({ code: 0 });
  });
  afterAll(() => fixture.close());

  /** A connection with the token of the operator's account, which notes each right that a call needs. */
  async function accountConfig(): Promise<() => KubeConfig> {
    const { stdout } = await fixture.kubectl(['create', 'token', ACCOUNT, '--namespace', NAMESPACE]);
    const { clusters, contexts, currentContext } = loadKubeConfig(adminKubeconfig);
    const [{ user = '' } = {}] = contexts;
    const config = new KubeConfig();
    config.loadFromOptions({
      clusters,
      contexts,
      currentContext,
      users: [{ name: user, token: stdout.trim() }],
    });
    return () => config;
  }
  class Noting extends KubeTransport {
    override async request(request: KubeRequest): Promise<unknown> {
      used.add(rightOf(request));
      return await super.request(request).catch((error: unknown) => {
        if (error instanceof Error && 'status' in error && error.status === 403) refused.push(error.message);
        throw error;
      });
    }
    override streamLines(request: KubeRequest): AsyncGenerator<string> {
      used.add(rightOf(request).replace('list', 'watch'));
      return super.streamLines(request);
    }
  }

  it('the operator does all its work with the rights of the chart, and has no right that it never uses', async () => {
    const loadConfig = await accountConfig();
    const makeTransport = () => new Noting({ loadConfig, userAgent: 'beatkeeper-operator/test' });
    const { namespace, kube } = fixture;
    await fixture.startOperator({
      makeTransport,
      watchNamespaces: [],
      defaultCallbackNamespaces: [namespace],
      workloadLogs: true,
    });
    await leadOnce(new KubeClient(makeTransport()));

    await fixture.createCallback('oncall', { organizationDefault: true });
    await fixture.callbackBecomes('oncall', 'Default', 'True');
    await fixture.createMonitor('backup', {
      graceSeconds: 300,
      callback: { kind: 'inline', url: 'http://127.0.0.1:9/inline' },
    });
    const { status } = await fixture.monitorBecomes('backup', 'Ready', 'True');
    await fixture.createRule('rows', {
      selector: {},
      measurementKey: 'rows',
      definition: { minimum: 1 },
    });
    await waitFor(async () => (await fixture.rule('rows')).status?.monitors?.matched === 1, {
      what: 'the Rule has its status',
    });
    const ref = (name: string) => ({ namespace, name });

    // A Secret that is edited, deleted, or immutable and renamed.
    const url = async () => (await fixture.secret('backup-beat'))?.url;
    const before = await url();
    const isBack = () => waitFor(async () => (await url()) === before, { what: 'the address is back' });
    await kube.client.mergePatch(SECRETS, ref('backup-beat'), { data: { url: null } });
    await isBack();
    await kube.client.delete(SECRETS, ref('backup-beat'));
    await isBack();
    await kube.client.mergePatch(MONITORS, ref('backup'), { spec: { publishSecretName: 'beat' } });
    await waitFor(async () => (await fixture.secret('beat')) !== undefined && (await url()) === undefined, {
      what: 'the Secret has its new name',
    });

    // Drift that repeats makes one Event that counts.
    const params = { monitorId: status?.monitorId ?? '' };
    const read = () => fixture.api.expectSuccess('getMonitor', { params });
    for (let times = 1; times <= 2; times += 1) {
      const { etag } = await read();
      const body = { patch: { graceSeconds: 600 } };
      await fixture.api.expectSuccess('updateMonitor', { params, ifMatch: etag, body });
      await waitFor(async () => (await read()).body.graceSeconds === 300, { what: 'the drift is undone' });
    }
    await waitFor(async () => (await fixture.eventAppears('backup', 'Drifted')).deprecatedCount === 2, {
      what: 'the Event counts',
    });
    await watchWorkloads();
    for (const kind of ['mon', 'cb']) {
      const { code } = await fixture.kubectl(['delete', kind, '--all', '--timeout=200s']);
      expect(code).toBe(0);
    }
    expect(refused).toEqual([]);
    expect([...used, ...SELDOM].sort()).toEqual(given(manifests).sort());
  });

  /** A CronJob that has a Monitor, and a Job that fails, and then no more; Monitors of other workloads. */
  async function watchWorkloads(): Promise<void> {
    const jobs = jobFixture(fixture);
    const annotations = { 'beatkeeper.dev/monitor': 'true' };
    const cronJob = await jobs.createCronJob('nightly', {}, { annotations });
    const job = await jobs.createJob('nightly-1', cronJob);
    await jobs.setPod('nightly-1-pod', job, { startedAt: ago(9), exitCode: 1 }, { phase: 'Failed' });
    await jobs.failJob('nightly-1', 'BackoffLimitExceeded');
    const { client } = fixture.kube;
    const ref = { namespace: fixture.namespace, name: 'nightly' };
    await waitFor(() => client.find(MONITORS, ref), { what: 'the Monitor of the CronJob' });
    await jobs.beats('nightly', ['start', 'fail']);
    await jobs.patchCronJob('nightly', { metadata: { annotations: { 'beatkeeper.dev/monitor': null } } });
    await waitFor(async () => (await client.find(MONITORS, ref)) === undefined, { what: 'it is gone' });
    for (const kind of ['Deployment', 'StatefulSet', 'DaemonSet']) {
      const name = kind.toLowerCase();
      const workloadRef = { apiVersion: 'apps/v1', kind, name };
      await fixture.createMonitor(name, { callback: { kind: 'disabled' }, workloadRef });
      await fixture.monitorBecomes(name, 'WorkloadWatched', 'False', 'WorkloadNotFound');
    }
  }

  async function leadOnce(client: KubeClient): Promise<void> {
    const elected = Promise.withResolvers<void>();
    const elector = new LeaseElector({
      client,
      lease: { namespace: NAMESPACE, name: ACCOUNT },
      identity: 'test',
      onElected: () => elected.resolve(),
      onLost: () => undefined,
    });
    elector.start();
    await elected.promise;
    await elector.stop();
  }
});

const VERBS = { GET: 'get', POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' };

/** `verb group/resource`, with the subresource. */
function rightOf({ method, path }: KubeRequest): string {
  const named =
    /^\/(?:api|apis\/([^/]+))\/[^/]+(?:\/namespaces\/[^/]+(?=\/))?\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/;
  const [, group = '', resource = '', name, sub] = named.exec(path) ?? [];
  const verb = method === 'GET' && name === undefined ? 'list' : VERBS[method];
  return `${verb} ${group}/${resource}${sub === undefined ? '' : `/${sub}`}`;
}

/** Every right of the roles, each once. */
function given(manifests: Manifest[]): string[] {
  const rules = manifests.flatMap(({ rules: some = [] }) => some as Rule[]);
  const rights = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => verbs.map((verb) => `${verb} ${group}/${resource}`)),
    ),
  );
  return [...new Set(rights)];
}
