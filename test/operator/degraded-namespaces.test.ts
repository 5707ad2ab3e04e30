// A watched namespace that is gone, or in which the operator has no rights any more, stops nothing in the others.
import { randomUUID } from 'node:crypto';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster, metricValue, namespaces, startClusterProxy } from '../kube/cluster.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } } as MonitorObject['spec'];
const NAME = 'degraded-test';

describe.skipIf(!hasCluster)('an operator that watches single namespaces', () => {
  let fixture: OperatorFixture;
  let proxy: TcpProxy;
  let account: () => KubeConfig;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    const { namespace } = fixture;
    const rules = [
      { apiGroups: ['beatkeeper.dev'], resources: ['*'], verbs: ['*'] },
      { apiGroups: [''], resources: ['secrets'], verbs: ['*'] },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['*'] },
      { apiGroups: ['', 'batch'], resources: ['cronjobs', 'jobs', 'pods'], verbs: ['list', 'watch'] },
    ];
    await apply(
      namespace,
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRole',
        metadata: { name: NAME },
        rules,
      },
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: NAME, namespace } },
      binding(namespace),
    );
    const { stdout } = await fixture.kubectl(['create', 'token', NAME]);
    const through = await startClusterProxy();
    proxy = through.proxy;
    const { clusters, contexts, currentContext } = through.proxied;
    const config = new KubeConfig();
    const users = [{ name: contexts[0]?.user ?? '', token: stdout.trim() }];
    config.loadFromOptions({ clusters, contexts, currentContext, users });
    account = () => config;
  });
  afterAll(async () => {
    await fixture.close();
    await proxy.close();
  });

  async function apply(namespace: string, ...objects: object[]): Promise<void> {
    const text = objects.map((object) => stringify(object)).join('---\n');
    const args = ['apply', '--server-side', '--namespace', namespace, '--filename', '-'];
    const done = await fixture.kubectl(args, text);
    expect(done).toMatchObject({ code: 0 });
  }
  const binding = (namespace: string) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: NAME, namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: NAME },
    subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: fixture.namespace }],
  });
  const start = (other: string) =>
    fixture.startOperator({
      watchNamespaces: [fixture.namespace, other],
      makeTransport: (options) => new KubeTransport({ ...options, loadConfig: account }),
    });
  const makeNamespace = async (name: string) => {
    await fixture.kube.client.create(namespaces, { metadata: { name } });
    await apply(name, binding(name));
  };
  const gauge = ({ registry }: TestOperator, namespace: string) =>
    metricValue(registry, 'beatkeeper_operator_degraded_namespaces', { namespace });
  const isReady = async (namespace: string, name: string) => {
    const { status } = await fixture.kube.client.get(MONITORS, { namespace, name });
    return status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True' ? status : undefined;
  };

  it('a named namespace that does not exist is degraded alone, and is watched as soon as it exists', async () => {
    const other = `later-${randomUUID()}`;
    const operator = await start(other);
    const { runtime } = operator;
    expect([runtime.hasSynced, runtime.isHearing]).toEqual([true, true]);
    expect([runtime.isWatched(fixture.namespace), runtime.isWatched(other)]).toEqual([true, false]);
    expect(runtime.degradedNamespaces).toEqual([other]);
    expect([await gauge(operator, other), await gauge(operator, fixture.namespace)]).toEqual([1, 0]);
    await fixture.createMonitor('beside', disabled);
    await fixture.monitorBecomes('beside', 'Ready', 'True');

    await makeNamespace(other);
    await fixture.kube.client.create(MONITORS, {
      metadata: { name: 'late', namespace: other },
      spec: disabled,
    });
    await waitFor(() => isReady(other, 'late'), { what: 'the Monitor of the new namespace is ready' });
    expect([runtime.isWatched(other), await gauge(operator, other)]).toEqual([true, 0]);
    await operator.stop();
  });

  it('what is in a namespace whose rights are gone is left as it is until they are back, and the others go on', async () => {
    const other = `lost-${randomUUID()}`;
    await makeNamespace(other);
    const operator = await start(other);
    const { runtime } = operator;
    await fixture.kube.client.create(MONITORS, {
      metadata: { name: 'kept', namespace: other },
      spec: disabled,
    });
    const { monitorId = '' } =
      (await waitFor(() => isReady(other, 'kept'), { what: 'the Monitor is ready' })) ?? {};

    await fixture.kubectl(['delete', 'rolebinding', NAME, '--namespace', other]);
    // The API server lets an open watch go on.
    proxy.reset();
    await waitFor(() => runtime.degradedNamespaces.length > 0, { what: 'the namespace is degraded' });
    expect(runtime.degradedNamespaces).toEqual([other]);
    expect(runtime.workers.Monitor.size).toBeGreaterThan(0);
    const api = fixture.apiFixture.operator.as(fixture.apiFixture.tokens.operator, other);
    const read = () => api.call('getMonitor', { params: { monitorId } });
    const { etag } = await api.expectSuccess('getMonitor', { params: { monitorId } });
    await api.expectSuccess('deleteMonitor', { params: { monitorId }, ifMatch: etag });
    await fixture.createMonitor('meanwhile', disabled);
    await fixture.monitorBecomes('meanwhile', 'Ready', 'True');
    // Two listings of the feed show that the monitor is gone: nobody knows whether its object still wants it.
    const listings = operator.calls.get('getStatusFeed') ?? 0;
    await waitFor(() => (operator.calls.get('getStatusFeed') ?? 0) > listings + 3, { what: 'the feed' });
    expect((await read()).status).toBe(404);

    await apply(other, binding(other));
    await waitFor(async () => (await read()).status === 200, { what: 'the monitor is made again' });
    expect(runtime.degradedNamespaces).toEqual([]);
    await operator.stop();
  });
});
