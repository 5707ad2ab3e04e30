// Causes that an operator tells the API of, and its signs of life, while parts of the installation are away: the operator
// itself, the API, an API that knows of causes, the rights to see nodes.
// Holds: setOperatorCauses.
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { type KubeLog, silentLog } from '../../src/kube/kube-log.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { loadKubeConfig } from '../../src/kube/load-kube-config.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';
import { type CauseFixture, causeFixture, ToldCalls } from './cause-fixture.ts';
import { ago, type JobFixture, jobFixture, WHOLE_PODS } from './job-fixture.ts';
import { type OperatorFixture, type OperatorOptions, openOperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';

const CAUSES = /\/v1\/operators\/.*\/causes$/;

describe.skipIf(!hasCluster)('the causes that an operator sees', () => {
  let fixture: OperatorFixture;
  let jobs: JobFixture;
  let cluster: CauseFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    jobs = jobFixture(fixture);
    cluster = causeFixture(fixture, jobs);
  });
  afterAll(() => fixture.close());

  const start = async (options: OperatorOptions = {}) => {
    const told = new ToldCalls();
    const operator = await fixture.startOperator({ ...told.clients, ...options });
    return { told, operator };
  };
  const runOn = async (name: string, node: string) => {
    const job = await cluster.begin(name);
    await jobs.setPod(`${name}-pod`, job, { startedAt: ago(0), node });
    await jobs.beats(name, ['start']);
  };
  /** The other tests have a node of their own; what is left on this one would be told of by them too. */
  const leave = async (name: string, node: string) => {
    const ref = { namespace: fixture.namespace, name: `${name}-pod` };
    await fixture.kube.client.mergePatch(
      WHOLE_PODS,
      ref,
      { status: { phase: 'Failed' } },
      { subresource: 'status' },
    );
    await jobs.completeJob(`${name}-1`);
    await cluster.deleteNode(node);
  };
  /** The lines of a log that say this, of any level above debug. */
  const logOf = (lines: string[]): KubeLog => {
    const note = (_fields: object, message: string) => void lines.push(message);
    return { ...silentLog, info: note, warn: note, error: note };
  };

  it('are told whole by the next operator as it begins to lead, and those that are over no more', async () => {
    const node = await cluster.createNode('killed');
    const first = await start();
    await runOn('killed', node);
    await cluster.setNode(node, 'Unknown');
    const cause = { [`node_not_ready ${node}`]: 1 };
    const causes = await first.told.become(cause);
    await first.operator.stop();

    const second = await start();
    await second.told.moreSigns();
    // No state in between lacks the monitor, and none of its signs came before.
    expect(second.told.causes[0]).toEqual(causes);
    expect(second.told.all[0]?.at).toBe('causes');
    await second.operator.stop();

    await cluster.setNode(node, 'True');
    const third = await start();
    await third.told.moreSigns();
    expect(third.told.causes[0]).toEqual({});
    await third.operator.stop();
    await leave('killed', node);
  });

  it('are not told by a standby, and are told when it leads', async () => {
    const node = await cluster.createNode('standby');
    const first = await start();
    await runOn('standby', node);
    await first.operator.stop();
    const { told, operator } = await start({ isStandby: true });
    await cluster.setNode(node, 'False');
    expect(operator.calls.get('setOperatorCauses')).toBeUndefined();
    await operator.runtime.startWork();
    await told.become({ [`node_not_ready ${node}`]: 1 });
    await operator.stop();
    await leave('standby', node);
  });

  it('are told before the next sign of life when the API is back', async () => {
    const proxy = await TcpProxy.start(fixture.apiFixture.url);
    try {
      const node = await cluster.createNode('outage');
      const { told, operator } = await start({ apiUrl: proxy.url });
      await runOn('outage', node);
      await told.moreSigns();
      await proxy.refuse();
      await cluster.setNode(node, 'Unknown');
      const tries = operator.calls.get('setOperatorCauses') ?? 0;
      await waitFor(() => (operator.calls.get('setOperatorCauses') ?? 0) > tries + 1, {
        what: 'it has tried',
      });
      const before = told.all.length;
      await proxy.accept();
      await told.moreSigns();
      expect(told.all.slice(before)[0]).toMatchObject({
        at: 'causes',
        causes: { [`node_not_ready ${node}`]: [expect.any(String)] },
      });
      await operator.stop();
      await leave('outage', node);
    } finally {
      await proxy.close();
    }
  });

  it('are what the first sign of life of a leader waits for, but not for ever', async () => {
    const proxy = await RefusingProxy.start(fixture.apiFixture.url);
    try {
      const node = await cluster.createNode('slow');
      const first = await start();
      await runOn('slow', node);
      await first.operator.stop();
      await cluster.setNode(node, 'Unknown');
      const held = Promise.withResolvers<void>();
      const seen: string[] = [];
      proxy.hold = (path) => {
        if (CAUSES.test(path)) seen.push('causes');
        if (path.endsWith('/sign')) seen.push('sign');
        return CAUSES.test(path) ? held.promise : undefined;
      };
      const { told, operator } = await start({ apiUrl: proxy.url });
      await waitFor(() => seen.includes('sign'), { what: 'a sign of life' });
      expect(told.causes).toEqual([]);
      expect(seen.indexOf('sign')).toBeGreaterThanOrEqual(2);
      held.resolve();
      await told.become({ [`node_not_ready ${node}`]: 1 });
      await operator.stop();
      await leave('slow', node);
    } finally {
      await proxy.close();
    }
  });

  it.each([
    ['does not know them', 404, { code: 'service.not_found', detail: 'There is no such path.' }],
    ['fails with them', 500, { code: 'service.internal_error', detail: 'It failed.' }],
  ])('stop no signs of life where the API %s', async (_, status, problem) => {
    const proxy = await RefusingProxy.start(fixture.apiFixture.url);
    try {
      const headers = { 'content-type': 'application/problem+json' };
      proxy.answer = ({ path }) =>
        CAUSES.test(path) ? { status, headers, body: JSON.stringify(problem) } : undefined;
      const node = await cluster.createNode(`answer-${status}`);
      const lines: string[] = [];
      const { told, operator } = await start({ apiUrl: proxy.url, log: logOf(lines) });
      await runOn(`answer-${status}`, node);
      await cluster.setNode(node, 'Unknown');
      await waitFor(() => (operator.calls.get('setOperatorCauses') ?? 0) > 1, { what: 'it tries again' });
      await told.moreSigns(2);
      expect(told.causes).toEqual([]);
      const about = lines.filter((line) => line.includes('does not take causes'));
      expect(about).toHaveLength(status === 404 ? 1 : 0);
      proxy.answer = () => undefined;
      await told.become({ [`node_not_ready ${node}`]: 1 });
      await operator.stop();
      await leave(`answer-${status}`, node);
    } finally {
      await proxy.close();
    }
  });

  it('are those that it may see: without rights on nodes it says so once, and signs', async () => {
    const { namespace } = fixture;
    const name = `blind-${namespace}`;
    const rules = [
      { apiGroups: ['beatkeeper.dev'], resources: ['*'], verbs: ['*'] },
      { apiGroups: [''], resources: ['secrets'], verbs: ['*'] },
      { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['*'] },
      { apiGroups: ['', 'batch'], resources: ['cronjobs', 'jobs', 'pods'], verbs: ['list', 'watch'] },
      { apiGroups: [''], resources: ['resourcequotas'], verbs: ['list', 'watch'] },
      // That names the cluster.
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get'] },
    ];
    const api = 'rbac.authorization.k8s.io/v1';
    const account = { kind: 'ServiceAccount', name, namespace };
    const objects = [
      { apiVersion: api, kind: 'Role', metadata: { name, namespace }, rules },
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
      {
        apiVersion: api,
        kind: 'RoleBinding',
        metadata: { name, namespace },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
        subjects: [account],
      },
    ];
    const text = objects.map((object) => stringify(object)).join('---\n');
    expect(await fixture.kubectl(['apply', '--server-side', '-f', '-'], text)).toMatchObject({ code: 0 });
    const { stdout } = await fixture.kubectl(['create', 'token', name]);
    const { clusters, contexts, currentContext } = loadKubeConfig(adminKubeconfig);
    const config = new KubeConfig();
    const users = [{ name: contexts[0]?.user ?? '', token: stdout.trim() }];
    config.loadFromOptions({ clusters, contexts, currentContext, users });

    const node = await cluster.createNode('unseen', 'Unknown');
    const lines: string[] = [];
    let refusals = 0;
    class Counting extends KubeTransport {
      override request: KubeTransport['request'] = async (request) => {
        return await super.request(request).catch((error: unknown) => {
          if (request.path.endsWith('/nodes')) refusals += 1;
          throw error;
        });
      };
    }
    const { told, operator } = await start({
      log: logOf(lines),
      makeTransport: (options) => new Counting({ ...options, loadConfig: () => config }),
    });
    await runOn('unseen', node);
    await told.moreSigns(2);
    await waitFor(() => refusals > 3, { what: 'it has asked for nodes again' });
    expect(lines.filter((line) => line.includes('nodes'))).toEqual([
      'The operator may not list and watch nodes: Jobs that stop with their node have an alert each. Grant it where one alert is wanted.',
    ]);
    expect(operator.runtime.degradedNamespaces).toEqual([]);
    // What it sees is told all the same.
    await cluster.setQuota('unseen', { hard: { pods: '1' }, used: { pods: '1' } });
    await cluster.begin('crowded');
    await told.become({ [`quota_exceeded ${namespace}/unseen`]: 1 });
    await operator.stop();
    await leave('unseen', node);
  });
});
