// Who may write a status gets nothing by it: what the operator ends, shows and gives follows from UID, annotation and
// namespace. Each test forges while no operator runs, so that the first pass finds the forged status.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { NAMESPACES, SECRETS } from '../../src/operator/resources/core-resources.ts';
import { createNamespace, hasCluster } from '../kube/cluster.ts';
import type { ApiClient } from '../support/api-client.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const binding = { callback: { kind: 'disabled' } };
const disabled = { ...binding, deletionPolicy: 'Delete' };

describe.skipIf(!hasCluster)('a forged status', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  /** The namespace of another project, a session in it, its id. */
  let other: string;
  let theirs: ApiClient;
  let projectId: string;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    other = await createNamespace(fixture.kube.client);
    theirs = fixture.api.as(fixture.apiFixture.tokens.operator, other);
    operator = await start();
    const spec = disabled as MonitorObject['spec'];
    await fixture.kube.client.create(MONITORS, { metadata: { name: 'theirs', namespace: other }, spec });
    await waitFor(async () => (await theirMonitor()) !== undefined, { what: 'the project of the other' });
    projectId = (await theirMonitor())?.status?.projectId ?? '';
  });
  afterAll(() => fixture.close());

  const start = () => fixture.startOperator({ watchNamespaces: [fixture.namespace, other] });
  const theirMonitor = async () => {
    const object = await fixture.kube.client.get(MONITORS, { namespace: other, name: 'theirs' });
    return object.status?.configurationVersion === undefined ? undefined : object;
  };
  const isGone = (kind: 'mon' | 'cb', name: string) =>
    waitFor(async () => (await fixture.kubectl(['get', kind, name])).code !== 0, { what: `${name} is gone` });
  const annotation = { mon: 'beatkeeper.dev/monitor-id', cb: 'beatkeeper.dev/endpoint-id' };
  const patch = async (kind: 'mon' | 'cb', name: string, body: object, more: readonly string[] = []) => {
    const args = ['patch', kind, name, '--type=merge', '-p', JSON.stringify(body), ...more];
    expect(await fixture.kubectl(args)).toMatchObject({ code: 0 });
  };
  const forge = (kind: 'mon' | 'cb', name: string, status: object) =>
    patch(kind, name, { status }, ['--subresource=status']);
  const name = (kind: 'mon' | 'cb', object: string, id: string) =>
    patch(kind, object, { metadata: { annotations: { [annotation[kind]]: id } } });
  const remove = (kind: 'mon' | 'cb', object: string) =>
    fixture.kubectl(['delete', kind, object, '--wait=false']);
  const theirMonitorIs = async (monitorId: string) =>
    (await theirs.call('getMonitor', { params: { monitorId } })).body?.lifecycle;

  it('does not let the deletion of a Monitor end the monitor of another project, whoever made that', async () => {
    const made = (await theirMonitor())?.status?.monitorId ?? '';
    await theirs.expectSuccess('createMonitor', { body: { monitorId: 'by-hand', name: 'x', ...binding } });
    for (const monitorId of [made, 'by-hand']) {
      await fixture.createMonitor('forger', disabled);
      await fixture.monitorBecomes('forger', 'Ready', 'True');
      await operator.stop();
      await name('mon', 'forger', monitorId);
      await forge('mon', 'forger', { projectId, monitorId });
      await remove('mon', 'forger');
      operator = await start();
      await isGone('mon', 'forger');
      expect(await theirMonitorIs(monitorId)).toBe('active');
    }
  });

  it('does not let a Monitor that names another id end the monitor of another project', async () => {
    await theirs.expectSuccess('createMonitor', { body: { monitorId: 'edited', name: 'x', ...binding } });
    await fixture.createMonitor('editor', disabled);
    await fixture.monitorBecomes('editor', 'Ready', 'True');
    await operator.stop();
    await name('mon', 'editor', 'edited-to');
    await forge('mon', 'editor', { projectId, monitorId: 'edited' });
    operator = await start();
    await waitFor(async () => (await fixture.monitor('editor')).status?.monitorId === 'edited-to', {
      what: 'the status is right again',
    });
    expect(await theirMonitorIs('edited')).toBe('active');
    const { note } = await fixture.eventAppears('editor', 'Released');
    expect(note).toMatch(/^Left the monitor edited of the project .* as it is/);
  });

  it('does not let a namespace that moves take the monitor of another project along', async () => {
    await theirs.expectSuccess('createMonitor', { body: { monitorId: 'moved', name: 'x', ...binding } });
    await operator.stop();
    const everywhere = await fixture.startOperator({ watchNamespaces: [] });
    const { client } = fixture.kube;
    const namespace = await createNamespace(client);
    const ref = { namespace, name: 'mover' };
    await client.create(MONITORS, { metadata: ref, spec: disabled as MonitorObject['spec'] });
    const isIn = (known: (id: string) => boolean) => async () => {
      const { status } = await client.get(MONITORS, ref);
      return status?.configurationVersion !== undefined && known(status.projectId ?? '') && status.projectId;
    };
    const former = await waitFor(isIn(Boolean), { what: 'it has a monitor' });
    await everywhere.stop();
    const project = { 'beatkeeper.dev/project': `moved to by ${namespace}`.slice(0, 60) };
    await client.mergePatch(NAMESPACES, { name: namespace }, { metadata: { annotations: project } });
    await client.mergePatch(MONITORS, ref, {
      metadata: { annotations: { [annotation.mon]: 'moved' } },
    });
    const status = JSON.stringify({ status: { projectId, monitorId: 'moved' } });
    const forging = ['patch', 'mon', 'mover', '-n', namespace, '--subresource=status', '--type=merge'];
    expect((await fixture.kubectl([...forging, '-p', status])).code).toBe(0);
    const again = await fixture.startOperator({ watchNamespaces: [] });
    const isNew = (id: string) => id !== former && id !== projectId;
    await waitFor(isIn(isNew), { what: 'it has moved' });
    expect(await theirMonitorIs('moved')).toBe('active');
    await client.delete(MONITORS, ref);
    await waitFor(async () => (await client.find(MONITORS, ref)) === undefined, { what: 'it is gone' });
    await again.stop();
    operator = await start();
  });

  it('does not show the state of a monitor of another project', async () => {
    const monitorId = 'watched';
    const { body } = await theirs.expectSuccess('createMonitor', {
      body: { monitorId, name: 'x', ...binding },
    });
    const spec = { callback: { kind: 'disabled' }, deletionPolicy: 'Orphan' };
    const claiming = { annotations: { [annotation.mon]: monitorId } };
    await fixture.createMonitor('first', spec, claiming);
    await fixture.monitorBecomes('first', 'Ready', 'True');
    await fixture.createMonitor('spy', spec, claiming);
    await fixture.monitorBecomes('spy', 'Ready', 'False', 'Conflict');
    await operator.stop();
    await forge('mon', 'spy', { projectId, monitorId, observedGeneration: 0 });
    await fetch(`${fixture.apiFixture.url}${new URL(body.publishUrl ?? '').pathname}`);
    operator = await start();
    const spy = await fixture.monitorBecomes('spy', 'Ready', 'False', 'Conflict');
    // A beat to a third monitor comes by the feed after everything before it.
    await fixture.createMonitor('fence', spec);
    await fixture.monitorBecomes('fence', 'Ready', 'True');
    await fixture.beat('fence-beat');
    await fixture.monitorBecomes('fence', 'Healthy', 'True');
    const { status } = await fixture.monitor('spy');
    expect([spy.status?.health, status?.health, status?.lastBeatAt]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('does not let a Callback remove an endpoint of another project, or the default endpoint', async () => {
    const url = 'http://127.0.0.1:9/theirs';
    for (const way of ['deletion', 'edit'] as const) {
      const made = await theirs.expectSuccess('createCallback', {
        body: { endpointId: `by-hand-${way}`, alias: `by-hand-${way}`, kind: 'webhook', url },
      });
      const endpointId = made.body.endpoint.id;
      await theirs.expectSuccess('setDefaultCallback', { body: { endpointId } });
      await fixture.createCallback(way);
      await fixture.callbackBecomes(way, 'Ready', 'True');
      await operator.stop();
      await name('cb', way, way === 'deletion' ? endpointId : 'edited-endpoint');
      await forge('cb', way, { projectId, endpointId, ownedFields: ['organizationDefault'] });
      if (way === 'deletion') await remove('cb', way);
      // Its own endpoint, which the status hides now, has the first alias.
      else await patch('cb', way, { spec: { alias: 'edited' } });
      operator = await start();
      if (way === 'deletion') await isGone('cb', way);
      else {
        await waitFor(async () => (await fixture.callback(way)).status?.endpointId === 'edited-endpoint', {
          what: 'the status is right again',
        });
      }
      const { body } = await theirs.expectSuccess('getCallback', { params: { endpointId } });
      expect(body).toMatchObject({ lifecycle: 'active', isOrganizationDefault: true });
    }
  });

  it('does not lead the alerts of a Monitor to another endpoint', async () => {
    const { client } = fixture.kube;
    const ref = (of: string) => ({ namespace: fixture.namespace, name: of });
    const data = { url: Buffer.from('http://127.0.0.1:9/pager').toString('base64') };
    await client.create(SECRETS, { metadata: ref('pager-url'), data });
    const urlSecretRef = { name: 'pager-url', key: 'url' };
    await fixture.createCallback('pager', { url: undefined, urlSecretRef });
    await fixture.callbackBecomes('pager', 'Ready', 'True');
    const elsewhere = { alias: 'elsewhere', kind: 'webhook', url: 'http://127.0.0.1:9/elsewhere' };
    await fixture.api.expectSuccess('createCallback', { body: elsewhere });
    await fixture.createMonitor('paging', { callback: { kind: 'named', callbackRef: { name: 'pager' } } });
    const { status } = await fixture.monitorBecomes('paging', 'Ready', 'True');
    await operator.stop();
    // The pass over the Callback ends before it can write the status again.
    await client.delete(SECRETS, ref('pager-url'));
    await forge('cb', 'pager', { alias: 'elsewhere' });
    operator = await start();
    await fixture.callbackBecomes('pager', 'Ready', 'False', 'SecretNotFound');
    await patch('mon', 'paging', { spec: { graceSeconds: 123 } });
    await fixture.monitorBecomes('paging', 'Synced', 'True');
    const params = { monitorId: status?.monitorId ?? '' };
    const { body } = await fixture.api.expectSuccess('getMonitor', { params });
    expect(body).toMatchObject({ graceSeconds: 123, callback: { kind: 'named', alias: 'pager' } });
  });

  it('does not give or remove the Secret of another object', async () => {
    for (const one of ['taker', 'given']) {
      await fixture.createMonitor(one, disabled);
      await fixture.createCallback(one);
      await fixture.monitorBecomes(one, 'Ready', 'True');
      await fixture.callbackBecomes(one, 'Ready', 'True');
    }
    const before = [await fixture.secret('given-beat'), await fixture.secret('given-signing')];
    await operator.stop();
    await forge('mon', 'taker', { publishSecretRef: { name: 'given-beat' } });
    await forge('cb', 'taker', { signingSecretRef: { name: 'given-signing' } });
    operator = await start();
    await waitFor(
      async () =>
        (await fixture.monitor('taker')).status?.publishSecretRef?.name === 'taker-beat' &&
        (await fixture.callback('taker')).status?.signingSecretRef?.name === 'taker-signing',
      { what: 'the status is right again' },
    );
    await operator.stop();
    await forge('mon', 'taker', { publishSecretRef: { name: 'given-beat' } });
    await forge('cb', 'taker', { signingSecretRef: { name: 'given-signing' } });
    await remove('mon', 'taker');
    await remove('cb', 'taker');
    operator = await start();
    await isGone('mon', 'taker');
    await isGone('cb', 'taker');
    expect([await fixture.secret('given-beat'), await fixture.secret('given-signing')]).toEqual(before);
  });

  it('a monitor that was taken over is left when its namespace moves, and what another object of that project names stays', async () => {
    await operator.stop();
    const everywhere = await fixture.startOperator({ watchNamespaces: [] });
    const { client } = fixture.kube;
    const namespace = await createNamespace(client);
    const beside = await createNamespace(client);
    const move = (one: string, project: string) =>
      client.mergePatch(
        NAMESPACES,
        { name: one },
        { metadata: { annotations: { 'beatkeeper.dev/project': project } } },
      );
    await move(beside, namespace);
    const shared = fixture.api.as(fixture.apiFixture.tokens.operator, namespace);
    const spec = { ...disabled, deletionPolicy: 'Archive' } as MonitorObject['spec'];
    const make = (one: string, object: string, id?: string) =>
      client.create(MONITORS, {
        metadata: {
          ...{ namespace: one, name: object },
          annotations: id === undefined ? {} : { [annotation.mon]: id },
        },
        spec,
      });
    const becomes = (one: string, object: string, isSo: (status: MonitorObject['status']) => boolean) =>
      waitFor(
        async () => {
          const found = await client.get(MONITORS, { namespace: one, name: object });
          return isSo(found.status) && found.status;
        },
        { what: `${object} is as it should` },
      );
    const isReady = (status: MonitorObject['status']) =>
      status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') ?? false;
    await make(namespace, 'own');
    await make(namespace, 'adopting', 'adopted');
    const own = await becomes(namespace, 'own', isReady);
    await becomes(namespace, 'adopting', isReady);
    await make(beside, 'heir', own?.monitorId);
    await becomes(beside, 'heir', (status) =>
      Boolean(status?.conditions?.some(({ reason }) => reason === 'Conflict')),
    );
    await move(namespace, `${namespace.slice(0, 50)} two`);
    const hasMoved = (status: MonitorObject['status']) =>
      isReady(status) && status?.projectId !== own?.projectId;
    await becomes(namespace, 'own', hasMoved);
    await becomes(namespace, 'adopting', hasMoved);
    await becomes(beside, 'heir', isReady);
    for (const monitorId of ['adopted', own?.monitorId ?? '']) {
      const { body } = await shared.expectSuccess('getMonitor', { params: { monitorId } });
      expect(body.lifecycle).toBe('active');
    }
    for (const [one, object] of [
      [namespace, 'own'],
      [namespace, 'adopting'],
      [beside, 'heir'],
    ] as const)
      await client.delete(MONITORS, { namespace: one, name: object });
    const list = async () => [
      ...(await client.list(MONITORS, { namespace })).items,
      ...(await client.list(MONITORS, { namespace: beside })).items,
    ];
    await waitFor(async () => (await list()).length === 0, { what: 'they are gone' });
    await everywhere.stop();
    operator = await start();
  });
});
