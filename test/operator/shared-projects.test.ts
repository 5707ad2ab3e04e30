// Which namespaces may belong to a project (docs/contract/kubernetes.md, "Shared projects").
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import type { SharedProject } from '../../src/operator/known/shared-projects.ts';
import { NAMESPACES } from '../../src/operator/resources/core-resources.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, type OperatorOptions, openOperatorFixture } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('a namespace that names a project', () => {
  const id = randomUUID().slice(0, 8);
  const project = `Payments ${id}`;
  const shared: SharedProject[] = [{ project: `payments  ${id}`, namespaces: [`pay-*-${id}`] }];
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const client = () => fixture.kube.client;
  const makeNamespace = async (name: string, annotated = project) => {
    const annotations = { 'beatkeeper.dev/project': annotated };
    await client().create(NAMESPACES, { metadata: { name, annotations } });
    return name;
  };
  const makeMonitor = async (namespace: string, annotations = {}) => {
    const spec = { callback: { kind: 'disabled' } } as MonitorObject['spec'];
    await client().create(MONITORS, { metadata: { name: 'job', namespace, annotations }, spec });
  };
  const read = (namespace: string) => client().get(MONITORS, { namespace, name: 'job' });
  const becomes = (namespace: string, reason: string) =>
    waitFor(
      async () => {
        const object = await read(namespace);
        const ready = object.status?.conditions?.find(({ type }) => type === 'Ready');
        return ready?.reason === reason ? { object, ready } : undefined;
      },
      { what: `the Monitor of ${namespace} is ${reason}` },
    );
  const isGone = (namespace: string) =>
    waitFor(async () => (await client().find(MONITORS, { namespace, name: 'job' })) === undefined, {
      what: 'the Monitor is gone',
    });
  const apiOf = (name: string) => fixture.api.as(fixture.apiFixture.tokens.operator, name);
  const start = (sharedProjects: readonly SharedProject[], more: OperatorOptions = {}) =>
    fixture.startOperator({ watchNamespaces: [], sharedProjects, ...more });

  it('it belongs to it where an entry names it, and any other one is ProjectNotAllowed and makes nothing', async () => {
    const operator = await start(shared);
    const [inside, outside] = [await makeNamespace(`pay-eu-${id}`), await makeNamespace(`shop-${id}`)];
    await makeMonitor(inside);
    await makeMonitor(outside);
    const { object } = await becomes(inside, 'Available');
    const { ready } = await becomes(outside, 'ProjectNotAllowed');
    expect(ready).toMatchObject({
      status: 'False',
      message: expect.stringContaining('operator.sharedProjects'),
    });
    const { items } = (await apiOf(project).expectSuccess('listMonitors')).body;
    expect(items.map(({ monitorId }) => monitorId)).toEqual([object.status?.monitorId]);
    // The project of its own name is not listed.
    await client().mergePatch(NAMESPACES, { name: outside }, { metadata: { annotations: null } });
    await becomes(outside, 'Available');
    for (const namespace of [inside, outside]) await client().delete(MONITORS, { namespace, name: 'job' });
    for (const namespace of [inside, outside]) await isGone(namespace);
    await operator.stop();
  });

  it('what a namespace without permission names is not its own: it neither takes, delays nor ends it', async () => {
    const operator = await start(shared);
    const victim = await makeNamespace(`pay-us-${id}`);
    const stranger = await makeNamespace(`stranger-${id}`);
    await apiOf(project).expectSuccess('createMonitor', {
      body: { monitorId: `by-hand-${id}`, name: 'By hand', callback: { kind: 'disabled' } },
    });
    const annotations = { 'beatkeeper.dev/monitor-id': `by-hand-${id}` };
    // Older: without the list it would have the monitor.
    await makeMonitor(stranger, annotations);
    await becomes(stranger, 'ProjectNotAllowed');
    await makeMonitor(victim, annotations);
    const { object } = await becomes(victim, 'Available');
    expect(object.status?.monitorId).toBe(`by-hand-${id}`);
    await client().delete(MONITORS, { namespace: stranger, name: 'job' });
    await isGone(stranger);
    const params = { monitorId: `by-hand-${id}` };
    expect((await apiOf(project).expectSuccess('getMonitor', { params })).body.lifecycle).toBe('active');
    await client().delete(MONITORS, { namespace: victim, name: 'job' });
    await isGone(victim);
    await operator.stop();
  });

  it('a namespace that loses its permission keeps its monitors as they are, and the condition says so', async () => {
    const namespace = await makeNamespace(`leaver-${id}`);
    const before = await start([...shared, { project, namespaces: [namespace] }]);
    await makeMonitor(namespace);
    const { object } = await becomes(namespace, 'Available');
    await before.stop();
    const after = await start(shared);
    const { ready } = await becomes(namespace, 'ProjectNotAllowed');
    expect(ready.message).toContain('stay as they are');
    const params = { monitorId: object.status?.monitorId ?? '' };
    const { body } = await apiOf(project).expectSuccess('getMonitor', { params });
    expect(body).toMatchObject({ lifecycle: 'active', configurationVersion: 1 });
    expect((await read(namespace)).status?.monitorId).toBe(body.monitorId);
    await after.stop();
    const again = await start([]);
    await becomes(namespace, 'Available');
    await client().delete(MONITORS, { namespace, name: 'job' });
    await isGone(namespace);
    await again.stop();
  });

  it.each(['Keep', 'Archive'] as const)(
    'with orphans: %s, a namespace that names a project that is not its own loses no monitor by that',
    async (orphans) => {
      await fixture.apiFixture.owner.call('createProject', { body: { name: project } });
      const namespace = `mover-${orphans.toLowerCase()}-${id}`;
      await client().create(NAMESPACES, { metadata: { name: namespace } });
      const operator = await start(shared, { orphans, orphanArchiveAfterMs: 0, resyncMs: 300 });
      await makeMonitor(namespace);
      const { object } = await becomes(namespace, 'Available');
      const annotate = (annotations: object | null) =>
        client().mergePatch(NAMESPACES, { name: namespace }, { metadata: { annotations } });
      await annotate({ 'beatkeeper.dev/project': project });
      await becomes(namespace, 'ProjectNotAllowed');
      const reads = () => operator.calls.get('getStatusFeed') ?? 0;
      const before = reads();
      await waitFor(() => reads() >= before + 6, { what: 'the feed was listed again' });
      const params = { monitorId: object.status?.monitorId ?? '' };
      const { body } = await apiOf(namespace).expectSuccess('getMonitor', { params });
      expect(body).toMatchObject({ lifecycle: 'active', configurationVersion: 1 });
      expect(body.origin?.orphanedAt).toBeUndefined();
      expect(await metricValue(operator.registry, 'beatkeeper_monitors_orphaned', {})).toBe(0);
      await annotate(null);
      await becomes(namespace, 'Available');
      await client().delete(MONITORS, { namespace, name: 'job' });
      await isGone(namespace);
      await operator.stop();
    },
  );
});
