// Two releases, each with a database of its own, watch one namespace: they never work on the same object.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type OperatorFixture,
  type OperatorOptions,
  openOperatorFixture,
  type TestOperator,
} from './operator-fixture.ts';

const MANAGED_BY = 'beatkeeper.dev/managed-by';
const RELEASES = ['team-a/beatkeeper', 'team-b/beatkeeper'] as const;
const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('two releases that watch one namespace', () => {
  /** Both operators watch the namespace of the first. */
  let fixtures: [OperatorFixture, OperatorFixture];
  let objects: OperatorFixture;
  beforeAll(async () => {
    fixtures = [await openOperatorFixture(), await openOperatorFixture()];
    [objects] = fixtures;
  });
  afterAll(async () => {
    for (const fixture of fixtures) await fixture.close();
  });
  const start = (which: 0 | 1, more: OperatorOptions = {}): Promise<TestOperator> => {
    const options = { watchNamespaces: [objects.namespace], release: RELEASES[which], ...more };
    return fixtures[which].startOperator(options);
  };
  const count = async (which: 0 | 1, table: 'monitors' | 'callback_endpoints', id: string) => {
    const column = table === 'monitors' ? 'monitor_id' : 'endpoint_id';
    const { rows } = await fixtures[which].apiFixture.pool.query(
      `select count(*)::int as n from ${table} where ${column} = $1`,
      [id],
    );
    return rows[0].n as number;
  };
  const ref = (name: string) => ({ namespace: objects.namespace, name });

  it('each object has a monitor or an endpoint at one of them, and an Event of the other says at which', async () => {
    const operators = [await start(0), await start(1)];
    const names = Array.from({ length: 8 }, (_, i) => `shared-${i}`);
    for (const name of names) await objects.createMonitor(name, disabled);
    await objects.createCallback('shared', { organizationDefault: true });
    const found = [
      ...(await Promise.all(names.map((name) => objects.monitorBecomes(name, 'Ready', 'True')))),
    ];
    const callback = await objects.callbackBecomes('shared', 'Ready', 'True');
    for (const { metadata, status } of [...found, callback]) {
      const which = metadata.annotations?.[MANAGED_BY] === RELEASES[0] ? 0 : 1;
      expect(metadata.annotations?.[MANAGED_BY]).toBe(RELEASES[which]);
      expect(metadata.finalizers).toEqual(['beatkeeper.dev/sync']);
      const [table, id] =
        status && 'monitorId' in status
          ? (['monitors', status.monitorId] as const)
          : (['callback_endpoints', callback.status?.endpointId] as const);
      expect([
        await count(which, table, id ?? ''),
        await count(which === 0 ? 1 : 0, table, id ?? ''),
      ]).toEqual([1, 0]);
      const { note } = await objects.eventAppears(metadata.name, 'Conflict');
      const [manager, other] = which === 0 ? RELEASES : RELEASES.toReversed();
      expect(note).toContain(`is managed by the release ${manager}: the release ${other} leaves it alone.`);
      expect(note).toContain(`remove the annotation ${MANAGED_BY}`);
    }
    await objects.kube.client.delete(MONITORS, ref('shared-0'));
    await objects.kube.client.delete(CALLBACKS, ref('shared'));
    await waitFor(
      async () =>
        (await objects.kube.client.find(MONITORS, ref('shared-0'))) === undefined &&
        (await objects.kube.client.find(CALLBACKS, ref('shared'))) === undefined,
      { what: 'the objects are gone' },
    );
    for (const operator of operators) await operator.stop();
  });

  it('an object of a release that is gone is left alone, also when it is deleted, until the annotation is removed', async () => {
    const annotations = { [MANAGED_BY]: 'gone/beatkeeper' };
    await objects.createMonitor('left', disabled, { annotations, finalizers: ['beatkeeper.dev/sync'] });
    const { metadata } = await objects.createMonitor('taken', disabled, { annotations });
    const operator = await start(0);
    await objects.eventAppears('left', 'Conflict');
    await objects.eventAppears('taken', 'Conflict');
    const before = (await objects.monitor('taken')).metadata.resourceVersion;
    expect(before).toBe(metadata.resourceVersion);

    await objects.kube.client.mergePatch(MONITORS, ref('taken'), {
      metadata: { annotations: { [MANAGED_BY]: null } },
    });
    const taken = await objects.monitorBecomes('taken', 'Ready', 'True');
    expect(taken.metadata.annotations?.[MANAGED_BY]).toBe(RELEASES[0]);
    await objects.kube.client.delete(MONITORS, ref('left'));
    await objects.createMonitor('later', disabled);
    await objects.monitorBecomes('later', 'Ready', 'True');
    expect((await objects.monitor('left')).metadata.finalizers).toEqual(['beatkeeper.dev/sync']);
    await objects.kube.client.mergePatch(MONITORS, ref('left'), {
      metadata: { annotations: { [MANAGED_BY]: null } },
    });
    await waitFor(async () => (await objects.kube.client.find(MONITORS, ref('left'))) === undefined, {
      what: 'the object is gone',
    });
    await operator.stop();
  });

  const FORCE = { annotations: { 'beatkeeper.dev/force-delete': 'true' } };
  const isGone = async (name: string) => (await objects.kube.client.find(MONITORS, ref(name))) === undefined;
  const forceIsNamed = (name: string) =>
    waitFor(async () => (await objects.events(name)).find(({ note }) => note?.includes('force-delete')), {
      what: `an Event of ${name} names force-delete`,
    });
  const lifecycleOf = async (monitorId: string | undefined) => {
    const { pool } = fixtures[1].apiFixture;
    const text = 'select lifecycle from monitors where monitor_id = $1';
    return (await pool.query(text, [monitorId])).rows[0]?.lifecycle;
  };

  it('an object of a release that is gone loses its finalizer by force-delete, and nothing else of it is touched', async () => {
    const former = await start(1);
    // The finalizer of somebody else keeps the object, so that what is left of it can be read.
    await objects.createMonitor('forced', disabled, { finalizers: ['example.com/held'] });
    await objects.monitorBecomes('forced', 'Ready', 'True');
    await former.stop();
    const { metadata, status } = await objects.monitor('forced');
    const operator = await start(0);
    await objects.kube.client.delete(MONITORS, ref('forced'));
    const told = await forceIsNamed('forced');
    expect(told).toMatchObject({ reason: 'Conflict', note: expect.stringContaining(RELEASES[1]) });
    expect((await objects.monitor('forced')).metadata.finalizers).toEqual(metadata.finalizers);

    await objects.kube.client.mergePatch(MONITORS, ref('forced'), { metadata: FORCE });
    expect((await objects.eventAppears('forced', 'Released')).note).toContain(RELEASES[1]);
    const left = await objects.monitor('forced');
    expect(left.metadata.finalizers).toEqual(['example.com/held']);
    expect([left.status, left.metadata.annotations]).toEqual([
      status,
      { ...metadata.annotations, ...FORCE.annotations },
    ]);
    expect(await objects.secret('forced-beat')).toBeDefined();
    expect(await lifecycleOf(status?.monitorId)).toBe('active');
    await operator.stop();
    await objects.kube.client.mergePatch(MONITORS, ref('forced'), { metadata: { finalizers: null } });
  });

  it('the release that manages an object has the time to end its monitor before another one forces it', async () => {
    const manager = await start(1);
    const annotations = { ...FORCE.annotations, [MANAGED_BY]: RELEASES[1] };
    await objects.createMonitor('in-order', disabled, { annotations });
    const { status } = await objects.monitorBecomes('in-order', 'Ready', 'True');
    await manager.stop();
    const other = await start(0, { resyncMs: 600_000 });
    await objects.kube.client.delete(MONITORS, ref('in-order'));
    await forceIsNamed('in-order');
    const back = await start(1);
    await waitFor(() => isGone('in-order'), { what: 'the object is gone' });
    expect(await lifecycleOf(status?.monitorId)).toBe('archived');
    for (const operator of [other, back]) await operator.stop();
  });
});
