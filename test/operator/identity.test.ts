// Which monitor belongs to an object: adoption, conflicting claims, projects of namespaces, deletion.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { NAMESPACES } from '../../src/operator/resources/core-resources.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const claiming = (id: string) => ({ annotations: { 'beatkeeper.dev/monitor-id': id } });

describe.skipIf(!hasCluster)('the identity of a Monitor', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
    await fixture.createMonitor('first', disabled);
    await fixture.monitorBecomes('first', 'Ready', 'True');
  });
  afterAll(() => fixture.close());

  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const read = (monitorId: string) => fixture.api.call('getMonitor', { params: { monitorId } });

  const forge = async (name: string, status: object) => {
    const patch = ['--subresource=status', '--type=merge', '-p', JSON.stringify({ status })];
    expect(await fixture.kubectl(['patch', 'mon', name, ...patch])).toMatchObject({ code: 0 });
  };

  it('a Monitor takes over a monitor that was created through the API, and changes only the fields that it sets', async () => {
    const body = { monitorId: 'by-hand', name: 'By hand', graceSeconds: 600, callback: { kind: 'disabled' } };
    await fixture.api.expectSuccess('createMonitor', { body });
    await fixture.createMonitor('adopting', { intervalSeconds: 300 }, claiming('by-hand'));
    const object = await fixture.monitorBecomes('adopting', 'Ready', 'True');
    expect(object.status?.monitorId).toBe('by-hand');
    expect((await read('by-hand')).body).toMatchObject({
      name: 'By hand',
      graceSeconds: 600,
      intervalSeconds: 300,
    });
    await fixture.eventAppears('adopting', 'Adopted');
  });

  it('a Monitor that is deleted and created again with its monitor id restores the archived monitor', async () => {
    await fixture.createMonitor('restored', disabled);
    const { status } = await fixture.monitorBecomes('restored', 'Ready', 'True');
    const id = status?.monitorId ?? '';
    expect((await fixture.kubectl(['delete', 'mon', 'restored', '--timeout=200s'])).code).toBe(0);
    await fixture.createMonitor('restored', disabled, claiming(id));
    await fixture.monitorBecomes('restored', 'Ready', 'True', 'Available');
    expect((await read(id)).body.lifecycle).toBe('active');
  });

  it('of two Monitors that claim one monitor the first has it, and the second gets it after the first is deleted', async () => {
    await fixture.createMonitor('holder', { ...disabled, deletionPolicy: 'Orphan' }, claiming('shared'));
    await fixture.monitorBecomes('holder', 'Ready', 'True');
    await fixture.createMonitor('rival', { ...disabled, name: 'rival' }, claiming('shared'));
    await fixture.monitorBecomes('rival', 'Ready', 'False', 'Conflict');
    expect((await read('shared')).body.name).toBe('holder');
    await fixture.eventAppears('rival', 'Conflict');
    await fixture.kube.client.delete(MONITORS, ref('holder'));
    await fixture.monitorBecomes('rival', 'Ready', 'True');
    expect((await read('shared')).body.name).toBe('rival');
  });

  it('the deletion of a Monitor in conflict does not touch the monitor', async () => {
    await fixture.createMonitor('owner', disabled, claiming('kept'));
    await fixture.monitorBecomes('owner', 'Ready', 'True');
    await fixture.createMonitor('loser', { ...disabled, deletionPolicy: 'Delete' }, claiming('kept'));
    await fixture.monitorBecomes('loser', 'Ready', 'False', 'Conflict');
    await fixture.kube.client.mergePatch(MONITORS, ref('loser'), {
      metadata: { finalizers: ['beatkeeper.dev/sync'] },
    });
    expect((await fixture.kubectl(['delete', 'mon', 'loser', '--timeout=200s'])).code).toBe(0);
    expect((await read('kept')).body.lifecycle).toBe('active');
  });

  it('a forged status takes no monitor from the object that an operator has given it to, and is corrected', async () => {
    await fixture.createMonitor('victim', disabled, claiming('wanted'));
    const { status } = await fixture.monitorBecomes('victim', 'Ready', 'True');
    await fixture.createMonitor('forger', { ...disabled, deletionPolicy: 'Delete' }, claiming('wanted'));
    await fixture.monitorBecomes('forger', 'Ready', 'False', 'Conflict');
    await forge('forger', { projectId: status?.projectId, monitorId: 'wanted' });
    const isCorrected = async () => (await fixture.monitor('forger')).status?.monitorId === undefined;
    await waitFor(isCorrected, { what: 'the forged id is gone from the status' });
    await fixture.kube.client.mergePatch(MONITORS, ref('victim'), { spec: { graceSeconds: 123 } });
    await fixture.monitorBecomes('victim', 'Ready', 'True');
    expect((await read('wanted')).body.graceSeconds).toBe(123);
    expect((await fixture.kubectl(['delete', 'mon', 'forger', '--timeout=200s'])).code).toBe(0);
    expect((await read('wanted')).body.lifecycle).toBe('active');
  });

  it('of objects whose statuses both name a monitor at the start it belongs to the one that the API names', async () => {
    await fixture.createMonitor('right', disabled, claiming('disputed'));
    const { status } = await fixture.monitorBecomes('right', 'Ready', 'True');
    await fixture.createMonitor('wrong', { ...disabled, deletionPolicy: 'Delete' }, claiming('disputed'));
    await fixture.monitorBecomes('wrong', 'Ready', 'False', 'Conflict');
    await operator.stop();
    await forge('wrong', { projectId: status?.projectId, monitorId: 'disputed', observedGeneration: 0 });
    await forge('right', { observedGeneration: 0 });
    operator = await fixture.startOperator();
    await fixture.monitorBecomes('right', 'Ready', 'True');
    await fixture.monitorBecomes('wrong', 'Ready', 'False', 'Conflict');
    // Until the API has been asked, each names the other.
    const isCorrected = async () => (await fixture.monitor('wrong')).status?.monitorId === undefined;
    await waitFor(isCorrected, { what: 'the forged id is gone from the status' });
    expect((await fixture.kubectl(['delete', 'mon', 'wrong', '--timeout=200s'])).code).toBe(0);
    expect((await read('disputed')).body.lifecycle).toBe('active');
  });

  it('where the API names neither they name each other, and the deletion of one says that it ends nothing', async () => {
    await fixture.createMonitor('torn-one', { ...disabled, deletionPolicy: 'Delete' }, claiming('torn'));
    const { status } = await fixture.monitorBecomes('torn-one', 'Ready', 'True');
    await fixture.createMonitor('torn-two', disabled, claiming('torn'));
    await fixture.monitorBecomes('torn-two', 'Ready', 'False', 'Conflict');
    await operator.stop();
    const nobody = { params: { monitorId: 'torn' }, body: { origin: null } };
    await fixture.api.expectSuccess('setMonitorOrigin', nobody);
    await forge('torn-two', { projectId: status?.projectId, monitorId: 'torn', observedGeneration: 0 });
    operator = await fixture.startOperator();
    for (const name of ['torn-one', 'torn-two']) {
      const torn = await waitFor(
        async () => {
          const { conditions } = (await fixture.monitor(name)).status ?? {};
          return conditions?.find(
            ({ reason, message }) => reason === 'Conflict' && message.includes(' and '),
          );
        },
        { what: `${name} names both` },
      );
      expect(torn.message).toContain(`${fixture.namespace}/torn-one `);
      expect(torn.message).toContain(`${fixture.namespace}/torn-two `);
    }
    expect((await fixture.kubectl(['delete', 'mon', 'torn-one', '--timeout=200s'])).code).toBe(0);
    const left = async () =>
      (await fixture.events('torn-one')).find(({ note }) =>
        note.startsWith('Left the monitor torn as it is'),
      );
    expect(await waitFor(left, { what: 'the Event' })).toMatchObject({ type: 'Warning' });
    expect((await read('torn')).body.lifecycle).toBe('active');
    await fixture.monitorBecomes('torn-two', 'Ready', 'True');
  });

  it('the deletion policy deletes, archives or keeps the monitor', async () => {
    for (const [deletionPolicy, status, lifecycle] of [
      ['Delete', 404, undefined],
      ['Archive', 200, 'archived'],
      ['Orphan', 200, 'active'],
    ] as const) {
      const name = `policy-${deletionPolicy.toLowerCase()}`;
      await fixture.createMonitor(name, { ...disabled, deletionPolicy });
      const object = await fixture.monitorBecomes(name, 'Ready', 'True');
      expect((await fixture.kubectl(['delete', 'mon', name, '--timeout=200s'])).code).toBe(0);
      const answer = await read(object.status?.monitorId ?? '');
      expect(answer.status).toBe(status);
      expect(answer.problem === undefined ? answer.body.lifecycle : undefined).toBe(lifecycle);
    }
  });

  it('a former monitor is archived when its Monitor names another one, and left where it was made for no object or another Monitor claims it now', async () => {
    await fixture.createMonitor('renamed', disabled);
    const before = (await fixture.monitorBecomes('renamed', 'Ready', 'True')).status?.monitorId ?? '';
    const name = (object: string, id: string) =>
      fixture.kube.client.mergePatch(MONITORS, ref(object), { metadata: claiming(id) });
    const has = (object: string, id: string) =>
      waitFor(
        async () => {
          const { status } = await fixture.monitor(object);
          const isReady = status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True');
          return status?.monitorId === id && isReady;
        },
        { what: `${object} has ${id}` },
      );
    await name('renamed', 'renamed-to');
    await has('renamed', 'renamed-to');
    expect((await read(before)).body.lifecycle).toBe('archived');
    await fixture.eventAppears('renamed', 'Archived');

    // Two objects exchange their ids: the first one finds its new id taken, and changes nothing.
    await fixture.createMonitor('other', disabled, claiming('other-id'));
    await has('other', 'other-id');
    await name('renamed', 'other-id');
    await fixture.monitorBecomes('renamed', 'Ready', 'False', 'Conflict');
    await name('other', 'renamed-to');
    await has('other', 'renamed-to');
    await name('renamed', 'other-id');
    await has('renamed', 'other-id');
    expect((await read('renamed-to')).body.lifecycle).toBe('active');
    expect((await read('other-id')).body.lifecycle).toBe('active');

    // An object that is deleted while its new id is taken ends neither that nor what only its status names.
    await name('renamed', 'renamed-to');
    await fixture.monitorBecomes('renamed', 'Ready', 'False', 'Conflict');
    expect((await fixture.kubectl(['delete', 'mon', 'renamed', '--timeout=200s'])).code).toBe(0);
    expect((await read('other-id')).body.lifecycle).toBe('active');
    expect((await read('renamed-to')).body.lifecycle).toBe('active');
    expect((await fixture.eventAppears('renamed', 'Released')).note).toContain('other-id');
  });

  it('a monitor is in the project that the annotation of its namespace names, and moves with the annotation', async () => {
    await operator.stop();
    const everywhere = await fixture.startOperator({ watchNamespaces: [] });
    const [namespace, project] = [`annotated-${randomUUID()}`, `Shared ${randomUUID()}`];
    const annotations = { 'beatkeeper.dev/project': project };
    await fixture.kube.client.create(NAMESPACES, { metadata: { name: namespace, annotations } });
    const { client } = fixture.kube;
    const spec = disabled as MonitorObject['spec'];
    await client.create(MONITORS, { metadata: { name: 'moving', namespace }, spec });
    const isReady = async (projectId?: string) => {
      const object = await client.get(MONITORS, { namespace, name: 'moving' });
      const isTrue = object.status?.conditions?.some(
        ({ type, status }) => type === 'Ready' && status === 'True',
      );
      return isTrue && object.status?.projectId !== projectId ? object : undefined;
    };
    const before = await waitFor(() => isReady(), { what: 'it is ready' });
    const params = { monitorId: before.status?.monitorId ?? '' };
    const old = fixture.api.as(fixture.apiFixture.tokens.operator, project);
    expect((await old.expectSuccess('getMonitor', { params })).body.projectId).toBe(before.status?.projectId);
    const rename = (name: string | null) =>
      client.mergePatch(
        NAMESPACES,
        { name: namespace },
        { metadata: { annotations: { 'beatkeeper.dev/project': name } } },
      );
    await rename('x'.repeat(65));
    const words = 'The annotation beatkeeper.dev/project of the namespace holds no valid name of a project';
    await waitFor(
      async () => {
        const { status } = await client.get(MONITORS, { namespace, name: 'moving' });
        return status?.conditions?.some(
          ({ reason, message }) => reason === 'Refused' && message.includes(words),
        );
      },
      { what: 'the status says that no project can have that name' },
    );
    await rename(null);
    await waitFor(() => isReady(before.status?.projectId), { what: 'it has moved' });
    expect((await old.expectSuccess('getMonitor', { params })).body.lifecycle).toBe('archived');
    const moved = fixture.api.as(fixture.apiFixture.tokens.operator, namespace);
    expect((await moved.expectSuccess('getMonitor', { params })).body.lifecycle).toBe('active');
    await client.delete(MONITORS, { namespace, name: 'moving' });
    await waitFor(async () => (await client.find(MONITORS, { namespace, name: 'moving' })) === undefined, {
      what: 'the Monitor is gone',
    });
    await everywhere.stop();
  });
});
