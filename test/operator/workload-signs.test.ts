// What the signs of life of an operator leave out: a namespace that it cannot see, and a Monitor whose beats are not sent yet.
// The others are judged meanwhile.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeClient } from '../../src/kube/kube-client.ts';
import type { ObjectRef } from '../../src/kube/kube-object.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { OperatorName } from '../../src/operator/workloads/operator-sign.ts';
import { connect, createNamespace, hasCluster, startClusterProxy } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { ago, cronJobRef, type JobFixture, jobFixture, WHOLE_CRON_JOBS } from './job-fixture.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('the signs of an operator', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
  });
  afterAll(() => fixture.close());

  const place = async (name: string, namespace = fixture.namespace) => {
    const { status } = await fixture.kube.client.get(MONITORS, { namespace, name });
    return { projectId: status?.projectId ?? '', monitorId: status?.monitorId ?? '' };
  };
  /** What the last sign left out, of an operator that signs. */
  const leftOut = async (): Promise<string[] | undefined> => {
    const { rows } = await fixture.apiFixture.pool.query('select behind from operator_signs');
    return rows.length === 0 ? undefined : Object.keys(rows[0].behind ?? {}).sort();
  };
  const leavesOut = (wanted: readonly string[]) =>
    waitFor(async () => JSON.stringify(await leftOut()) === JSON.stringify([...wanted].sort()), {
      what: `the signs leave out ${wanted.join(', ') || 'nothing'}`,
    });

  it('leave out a Monitor whose beat is not taken, until it is, and no other one', async () => {
    const proxy = await RefusingProxy.start(fixture.apiFixture.url);
    try {
      const [slow, quick] = [await jobs.createCronJob('slow'), await jobs.createCronJob('quick')];
      for (const name of ['slow', 'quick'])
        await fixture.createMonitor(name, { ...disabled, workloadRef: cronJobRef(name) });
      const operator = await fixture.startOperator({ apiUrl: proxy.url });
      for (const name of ['slow', 'quick']) await fixture.monitorBecomes(name, 'Ready', 'True');
      await leavesOut([]);

      const { projectId, monitorId } = await place('slow');
      const { url = '' } = (await fixture.secret('slow-beat')) ?? {};
      const address = new URL(url).pathname;
      const { promise: held, resolve: release } = Promise.withResolvers<void>();
      proxy.hold = (path) => (path.startsWith(address) ? held : undefined);
      await jobs.createJob('slow-1', slow);
      await jobs.startJob('slow-1', ago(3));
      await leavesOut([`${projectId} ${monitorId}`]);
      // The other one is told of, and judged.
      await jobs.createJob('quick-1', quick);
      await jobs.startJob('quick-1', ago(3));
      await jobs.beats('quick', ['start']);
      expect(await leftOut()).toEqual([`${projectId} ${monitorId}`]);
      release();
      await jobs.beats('slow', ['start']);
      await leavesOut([]);
      await operator.stop();
    } finally {
      await proxy.close();
    }
  });

  it('leave out a namespace whose watches hear nothing on open connections, and have it again when they do', async () => {
    const { proxy, proxied } = await startClusterProxy();
    try {
      await jobs.createCronJob('heard');
      await fixture.createMonitor('heard', { ...disabled, workloadRef: cronJobRef('heard') });
      const operator = await fixture.startOperator({
        workloadWatch: { silenceMs: 2000, backoff: { baseMs: 100, maxMs: 300 } },
        makeTransport: (options) => new KubeTransport({ ...options, loadConfig: () => proxied }),
      });
      await fixture.monitorBecomes('heard', 'Ready', 'True');
      const { projectId } = await place('heard');
      await leavesOut([]);
      proxy.blackHole();
      await leavesOut([projectId]);
      proxy.forward();
      await leavesOut([]);
      await operator.stop();
    } finally {
      await proxy.close();
    }
  });

  it('leave out a named namespace that the operator may not read, and have the others', async () => {
    const other = await createNamespace(fixture.kube.client, `other-${randomUUID()}`);
    for (const [namespace, name] of [
      [other, 'unread'],
      [fixture.namespace, 'read'],
    ] as const) {
      await fixture.kube.client.create(WHOLE_CRON_JOBS, {
        metadata: { name, namespace },
        spec: {
          schedule: '0 2 * * *',
          jobTemplate: {
            spec: {
              template: {
                spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'backup:1' }] },
              },
            },
          },
        },
      });
      const spec = { ...disabled, workloadRef: cronJobRef(name) } as MonitorObject['spec'];
      await fixture.kube.client.create(MONITORS, { metadata: { name, namespace }, spec });
    }
    const watchNamespaces = [fixture.namespace, other];
    const first = await fixture.startOperator({ watchNamespaces });
    await waitFor(async () => (await place('unread', other)).monitorId !== '', {
      what: 'both have monitors',
    });
    await fixture.monitorBecomes('read', 'Ready', 'True');
    await leavesOut([]);
    await first.stop();

    // The next one may read the Jobs of one of them alone.
    const { projectId } = await place('unread', other);
    const token = await accountOf(fixture, other);
    const { proxy, proxied } = await startClusterProxy();
    try {
      const [user] = proxied.users;
      proxied.users = [{ name: user?.name ?? '', token }];
      const second = await fixture.startOperator({
        watchNamespaces,
        makeTransport: (options) => new KubeTransport({ ...options, loadConfig: () => proxied }),
      });
      await leavesOut([projectId]);
      const cronJob = await fixture.kube.client.get(WHOLE_CRON_JOBS, {
        namespace: fixture.namespace,
        name: 'read',
      });
      await jobs.createJob('read-1', cronJob);
      await jobs.startJob('read-1', ago(2));
      await jobs.beats('read', ['start']);
      await second.stop();
    } finally {
      await proxy.close();
    }
  });

  it('name the cluster by its namespace or by the Lease of the operator, and have no name where neither may be read', async () => {
    const leases = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      plural: 'leases',
      namespaced: true,
    };
    const names = await Promise.all(
      [1, 2].map(async () => {
        const namespace = await createNamespace(fixture.kube.client);
        const lease = { namespace, name: 'beatkeeper-operator' };
        await fixture.kube.client.create(leases, { metadata: lease });
        return lease;
      }),
    );
    const [one, other] = names;
    const nameOf = (kube: KubeClient, isClusterWide: boolean, lease: ObjectRef | undefined) =>
      new OperatorName({ kube, release: 'shop/beatkeeper', isClusterWide, lease }).id();
    const { client } = fixture.kube;
    const ids = await Promise.all([one, other, one].map((lease) => nameOf(client, false, lease)));
    expect(ids[0]).toMatch(/^shop\/beatkeeper@[0-9a-f-]{36}$/);
    expect([ids[0] === ids[1], ids[0] === ids[2]]).toEqual([false, true]);
    const wide = await nameOf(client, true, one);
    expect([wide, wide === (await nameOf(client, true, other))]).toEqual([
      expect.stringMatching(/@[0-9a-f-]{36}$/),
      true,
    ]);

    // An account without rights.
    const { proxy, proxied } = await startClusterProxy();
    const name = `nobody-${randomUUID()}`;
    await fixture.kubectl(['create', 'serviceaccount', name]);
    const token = (await fixture.kubectl(['create', 'token', name])).stdout.trim();
    proxied.users = [{ name: proxied.users[0]?.name ?? '', token }];
    const stranger = connect(() => proxied);
    try {
      for (const isClusterWide of [true, false])
        await expect(nameOf(stranger.client, isClusterWide, one)).rejects.toThrow(
          /^The operator cannot tell this cluster from others, so it beats no monitors: give it the right to get its Lease /,
        );
    } finally {
      await stranger.close();
      await proxy.close();
    }
  });
});

/** The token of an account that may do all but list the Jobs of that namespace. */
async function accountOf(fixture: OperatorFixture, other: string): Promise<string> {
  const name = `signs-${randomUUID()}`;
  const { namespace } = fixture;
  const rbac = 'rbac.authorization.k8s.io';
  const role = (kind: string, rules: object[], at?: string) => ({
    ...{ apiVersion: `${rbac}/v1`, kind, rules },
    metadata: at === undefined ? { name } : { name, namespace: at },
  });
  const binding = (at: string, kind: string) => ({
    ...{
      apiVersion: `${rbac}/v1`,
      kind: 'RoleBinding',
      metadata: { name: `${name}-${kind.toLowerCase()}`, namespace: at },
    },
    roleRef: { apiGroup: rbac, kind, name },
    subjects: [{ kind: 'ServiceAccount', name, namespace }],
  });
  const all = {
    apiGroups: ['*'],
    resources: ['monitors', 'monitors/status', 'callbacks', 'rules'],
    verbs: ['*'],
  };
  const rest = [
    { apiGroups: [''], resources: ['secrets', 'pods'], verbs: ['*'] },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['*'] },
    { apiGroups: ['batch'], resources: ['cronjobs'], verbs: ['list', 'watch'] },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get'] },
  ];
  const ofJobs = [{ apiGroups: ['batch'], resources: ['jobs'], verbs: ['list', 'watch'] }];
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } };
  const everywhere = (at: string) => [role('ClusterRole', [all, ...rest]), binding(at, 'ClusterRole')];
  const objects = {
    [namespace]: [
      account,
      ...everywhere(namespace),
      role('Role', ofJobs, namespace),
      binding(namespace, 'Role'),
    ],
    [other]: everywhere(other),
  };
  for (const [at, some] of Object.entries(objects)) {
    const text = some.map((object) => JSON.stringify(object)).join('\n---\n');
    const done = await fixture.kubectl(['--namespace', at, 'apply', '--filename', '-'], text);
    expect(done).toMatchObject({ code: 0 });
  }
  return (await fixture.kubectl(['create', 'token', name])).stdout.trim();
}
