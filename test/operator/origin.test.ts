// An object that is made again under its kind, namespace and name has what the earlier one had.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallbackObject } from '../../src/operator/kinds/callback/callback-object.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };
const claiming = (id: string) => ({ annotations: { 'beatkeeper.dev/monitor-id': id } });
const ownId = (prefix: string, uid = '') => `${prefix}_${uid.replaceAll('-', '')}`;

describe.skipIf(!hasCluster)('the origin of a monitor', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator();
  });
  afterAll(() => fixture.close());

  const read = async (monitorId = '') =>
    (await fixture.api.call('getMonitor', { params: { monitorId } })).body;
  const make = async (name: string, spec: object = disabled, metadata: object = {}) => {
    await fixture.createMonitor(name, spec, metadata);
    return await fixture.monitorBecomes(name, 'Ready', 'True');
  };
  const remove = async (name: string) =>
    expect(await fixture.kubectl(['delete', 'mon', name, '--timeout=200s'])).toMatchObject({ code: 0 });
  const originOf = (name: string) => ({ kind: 'Monitor', namespace: fixture.namespace, name });

  it('a Monitor that is deleted and applied again has its monitor again, with address and history', async () => {
    const before = await make('again', { ...disabled, intervalSeconds: 300 });
    const id = before.status?.monitorId;
    expect((await read(id)).origin).toMatchObject(originOf('again'));
    const address = await fixture.secret('again-beat');
    await fixture.beat('again-beat');
    await waitFor(async () => (await fixture.monitor('again')).status?.lastBeatAt, { what: 'the beat' });
    await remove('again');
    expect((await read(id)).lifecycle).toBe('archived');

    const after = await make('again', { ...disabled, intervalSeconds: 300 });
    expect(after.metadata.uid).not.toBe(before.metadata.uid);
    expect(after.status).toMatchObject({ monitorId: id, lifecycle: 'active' });
    expect(after.status?.lastBeatAt).toBeDefined();
    expect(await fixture.secret('again-beat')).toEqual(address);
    const { note } = await fixture.eventAppears('again', 'Adopted');
    expect(note).toBe(`Adopted the monitor ${id}, which an earlier object of this name had.`);
  });

  it('a Monitor whose annotation a tool has removed keeps the monitor that it took over', async () => {
    await make('kept-by-origin', disabled, claiming('made-elsewhere'));
    await operator.stop();
    const annotations = { 'beatkeeper.dev/monitor-id': null };
    const ref = { namespace: fixture.namespace, name: 'kept-by-origin' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { annotations } });
    operator = await fixture.startOperator();
    const isBack = async () =>
      (await fixture.monitor('kept-by-origin')).metadata.annotations?.['beatkeeper.dev/monitor-id'];
    expect(await waitFor(isBack, { what: 'the annotation is back' })).toBe('made-elsewhere');
    const { status } = await fixture.monitorBecomes('kept-by-origin', 'Ready', 'True');
    expect(status?.monitorId).toBe('made-elsewhere');
    const reasons = (await fixture.events('kept-by-origin')).map(({ reason }) => reason);
    expect(reasons).not.toContain('Released');
  });

  it('a monitor that is left by its deletion policy has no origin, and the next Monitor of the name gets its own', async () => {
    const before = await make('left', { ...disabled, deletionPolicy: 'Orphan' });
    await remove('left');
    expect(await read(before.status?.monitorId)).toMatchObject({ lifecycle: 'active' });
    expect((await read(before.status?.monitorId)).origin).toBeUndefined();
    const after = await make('left');
    expect(after.status?.monitorId).toBe(ownId('mon', after.metadata.uid));
  });

  it('a Monitor that is made again with another jurisdiction gets a monitor of its own', async () => {
    const before = await make('moved', { ...disabled, jurisdiction: 'eu' });
    await remove('moved');
    const after = await make('moved', { ...disabled, jurisdiction: 'us' });
    expect(after.status?.monitorId).toBe(ownId('mon', after.metadata.uid));
    expect(await read(before.status?.monitorId)).toMatchObject({ lifecycle: 'archived' });
    expect((await read(after.status?.monitorId)).origin).toMatchObject(originOf('moved'));
  });

  it('an id that the manifest states comes first, and the origin goes along', async () => {
    const before = await make('stated');
    await remove('stated');
    const after = await make('stated', disabled, claiming('stated-id'));
    expect(after.status?.monitorId).toBe('stated-id');
    expect((await read('stated-id')).origin).toMatchObject(originOf('stated'));
    expect((await read(before.status?.monitorId)).origin).toBeUndefined();
  });

  it('a monitor that another Monitor names stays with that one', async () => {
    const before = await make('gone');
    const id = before.status?.monitorId ?? '';
    await remove('gone');
    await operator.stop();
    await fixture.createMonitor('gone', disabled);
    await fixture.createMonitor('heir', disabled, claiming(id));
    operator = await fixture.startOperator();
    const heir = await fixture.monitorBecomes('heir', 'Ready', 'True');
    const after = await fixture.monitorBecomes('gone', 'Ready', 'True');
    expect(heir.status?.monitorId).toBe(id);
    expect(after.status?.monitorId).toBe(ownId('mon', after.metadata.uid));
    await waitFor(async () => (await read(id)).origin?.name === 'heir', { what: 'the origin is right' });
    expect((await read(after.status?.monitorId)).origin).toMatchObject(originOf('gone'));
  });

  it('a monitor that has lost its origin at the API gets it again', async () => {
    const { status } = await make('without');
    const params = { monitorId: status?.monitorId ?? '' };
    await fixture.api.expectSuccess('setMonitorOrigin', { params, body: { origin: null } });
    const isSet = async () => (await read(params.monitorId)).origin;
    expect(await waitFor(isSet, { what: 'the origin' })).toMatchObject(originOf('without'));
  });

  it('an endpoint goes to the Callback that is applied again without its finalizer, with a new secret beside the old one', async () => {
    await fixture.createCallback('pager');
    const before = await fixture.callbackBecomes('pager', 'Ready', 'True');
    const ref = { namespace: fixture.namespace, name: 'pager' };
    // As an uninstall leaves it.
    await operator.stop();
    await fixture.kube.client.mergePatch(CALLBACKS, ref, { metadata: { finalizers: null } });
    await fixture.kube.client.delete(CALLBACKS, ref);
    const old = await fixture.secret('pager-signing');
    expect(await fixture.kubectl(['delete', 'secret', 'pager-signing'])).toMatchObject({ code: 0 });
    await fixture.createCallback('pager');
    operator = await fixture.startOperator();
    const after = await fixture.callbackBecomes('pager', 'Ready', 'True');
    expect(after.status).toMatchObject({ endpointId: before.status?.endpointId, alias: 'pager' });
    const { body } = await fixture.api.expectSuccess('getCallback', {
      params: { endpointId: after.status?.endpointId ?? '' },
    });
    expect(body.origin).toMatchObject({ ...originOf('pager'), kind: 'Callback' });
    expect(body.secret).toMatchObject({ version: 2, previousVersion: 1 });
    expect((await fixture.secret('pager-signing'))?.secret).not.toBe(old?.secret);
    await fixture.eventAppears('pager', 'Adopted');
  });

  it('a Callback that is deleted and applied again has an endpoint of its own', async () => {
    await fixture.createCallback('renewed');
    await fixture.callbackBecomes('renewed', 'Ready', 'True');
    expect((await fixture.kubectl(['delete', 'cb', 'renewed', '--timeout=200s'])).code).toBe(0);
    await fixture.createCallback('renewed');
    const after: CallbackObject = await fixture.callbackBecomes('renewed', 'Ready', 'True');
    expect(after.status?.endpointId).toBe(ownId('cb', after.metadata.uid));
  });
});
