// What an object that is made again takes over, and what not: the fields that earlier objects of its name have set go back
// to their defaults. And what an object leaves alone that another one of its name, as in a new cluster, has taken over.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an object that is made again', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator({ defaultCallbackNamespaces: [fixture.namespace] });
  });
  afterAll(() => fixture.close());

  const read = async (monitorId = '') =>
    (await fixture.api.expectSuccess('getMonitor', { params: { monitorId } })).body;
  const readCallback = async (endpointId = '') =>
    (await fixture.api.expectSuccess('getCallback', { params: { endpointId } })).body;
  const isSynced = (name: string) => fixture.monitorBecomes(name, 'Synced', 'True');
  const make = async (name: string, spec: object = {}, metadata: object = {}) => {
    await fixture.createMonitor(name, spec, metadata);
    return await isSynced(name);
  };
  const patch = async (monitorId: string, fields: object) => {
    const params = { monitorId };
    const { etag: ifMatch } = await fixture.api.expectSuccess('getMonitor', { params });
    await fixture.api.expectSuccess('updateMonitor', { params, body: { patch: fields }, ifMatch });
  };
  const remove = async (kind: 'mon' | 'cb', name: string) =>
    expect(await fixture.kubectl(['delete', kind, name, '--timeout=200s'])).toMatchObject({ code: 0 });
  /** As it goes with its whole cluster, or after an uninstall. */
  const lose = async (kind: typeof MONITORS | typeof CALLBACKS, name: string) => {
    const ref = { namespace: fixture.namespace, name };
    await operator.stop();
    await fixture.kube.client.mergePatch(kind as typeof MONITORS, ref, { metadata: { finalizers: null } });
    await fixture.kube.client.delete(kind as typeof MONITORS, ref);
  };
  const restart = async () => {
    operator = await fixture.startOperator({ defaultCallbackNamespaces: [fixture.namespace] });
  };

  const full = {
    name: 'Of a former tenant',
    description: 'Sends its alerts there.',
    intervalSeconds: 300,
    graceSeconds: 90,
    awaitFirstBeat: false,
    recoveryBeats: 3,
    missedBeatsToOpen: 2,
    labels: { team: 'former', 'example.com/tier': 'gold' },
    lifecycle: 'paused',
    callback: { kind: 'inline', url: 'http://127.0.0.1:9/former' },
    measurements: { rows: { minimum: 1 }, size: { maximum: 9, unit: 'MB' } },
  };
  /** What YAML and the API configure. */
  const configured = ({ name: _name, monitorId, ...record }: Awaited<ReturnType<typeof read>>) => {
    const { status, origin, publishUrl, createdAt, updatedAt, configurationVersion, ...rest } = record;
    const { monitorKey, latestObservation, restorableUntil, ...fields } = rest;
    return fields;
  };

  it('without the fields of the earlier one equals a new one, but for address and history', async () => {
    const before = await make('again', full);
    const { publishUrl } = await read(before.status?.monitorId);
    await remove('mon', 'again');
    const after = await make('again');
    expect(after.status?.monitorId).toBe(before.status?.monitorId);
    const record = await read(after.status?.monitorId);
    expect([record.publishUrl, record.name]).toEqual([publishUrl, 'again']);
    const fresh = await make('fresh');
    expect(configured(record)).toEqual(configured(await read(fresh.status?.monitorId)));
    expect(after.status?.ownedFields).toEqual([]);
  });

  it('leaves alone what only the API has set, also beside what it takes back', async () => {
    const { status } = await make('beside', {
      ...disabled,
      graceSeconds: 90,
      labels: { team: 'a' },
      measurements: { rows: { minimum: 1 } },
    });
    await patch(status?.monitorId ?? '', {
      maxRuntimeSeconds: 900,
      labels: { byHand: 'yes' },
      measurements: { rows: { maximum: 5 }, size: { maximum: 9 } },
    });
    await isSynced('beside');
    await lose(MONITORS, 'beside');
    await fixture.createMonitor('beside', { ...disabled, measurements: { rows: {} } });
    await restart();
    await isSynced('beside');
    const { graceSeconds, maxRuntimeSeconds, labels, measurements } = await read(status?.monitorId);
    expect({ graceSeconds, maxRuntimeSeconds, labels }).toEqual({
      ...{ graceSeconds: 300, maxRuntimeSeconds: 900 },
      labels: { byHand: 'yes' },
    });
    expect(measurements).toMatchObject({ rows: { maximum: 5 }, size: { maximum: 9 } });
    expect(measurements.rows).not.toHaveProperty('minimum');
  });

  it('takes back what the annotation of a backup leads to, and what any earlier one of its name has set', async () => {
    const { status } = await make('thrice', { ...disabled, graceSeconds: 90 });
    await lose(MONITORS, 'thrice');
    const annotations = { 'beatkeeper.dev/monitor-id': status?.monitorId ?? '' };
    await fixture.createMonitor(
      'thrice',
      { ...disabled, graceSeconds: 95, recoveryBeats: 2 },
      { annotations },
    );
    await restart();
    await isSynced('thrice');
    await lose(MONITORS, 'thrice');
    await fixture.createMonitor('thrice', disabled, { annotations });
    await restart();
    await isSynced('thrice');
    expect(await read(status?.monitorId)).toMatchObject({ graceSeconds: 300, recoveryBeats: 1 });
  });

  it('keeps what its own YAML sets, and a later start calls nothing about it', async () => {
    const spec = { ...disabled, graceSeconds: 90, measurements: { rows: { minimum: 1 } } };
    const { status } = await make('same', spec);
    await remove('mon', 'same');
    await make('same', spec);
    const record = await read(status?.monitorId);
    expect(record).toMatchObject({ graceSeconds: 90, measurements: { rows: { minimum: 1 } } });
    expect(record.origin?.ownedFields).toEqual(
      ['callback', 'graceSeconds', 'measurements.rows', 'measurements.rows.minimum'].sort(),
    );
    await operator.stop();
    await restart();
    await make('fence', disabled);
    expect(operator.calls.get('setMonitorOrigin')).toBeUndefined();
  });

  it('as a Callback gives up alias, lifecycle and default of the earlier one', async () => {
    await fixture.createCallback('hook', {
      alias: 'former',
      lifecycle: 'disabled',
      organizationDefault: true,
    });
    const { status } = await fixture.callbackBecomes('hook', 'Default', 'True');
    expect(await readCallback(status?.endpointId)).toMatchObject({
      ...{ alias: 'former', lifecycle: 'disabled', isOrganizationDefault: true },
    });
    await lose(CALLBACKS, 'hook');
    expect((await fixture.kubectl(['delete', 'secret', 'hook-signing'])).code).toBe(0);
    await fixture.createCallback('hook');
    await restart();
    await fixture.callbackBecomes('hook', 'Ready', 'True');
    expect(await readCallback(status?.endpointId)).toMatchObject({
      ...{ alias: 'hook', lifecycle: 'active', isOrganizationDefault: false },
    });
  });

  describe('elsewhere', () => {
    const originOf = (kind: 'Monitor' | 'Callback', name: string) => ({
      ...{ kind, namespace: fixture.namespace, name, uid: randomUUID() },
    });

    it.each(['Archive', 'Delete', 'Orphan'] as const)(
      'has its monitor: the older one takes nothing back, and its deletion with the policy %s ends nothing',
      async (deletionPolicy) => {
        const name = `beside-${deletionPolicy.toLowerCase()}`;
        const { status } = await make(name, { ...disabled, deletionPolicy });
        const params = { monitorId: status?.monitorId ?? '' };
        const origin = { ...originOf('Monitor', name), kind: 'Monitor' as const };
        await fixture.api.expectSuccess('setMonitorOrigin', { params, body: { origin } });
        const ref = { namespace: fixture.namespace, name };
        await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { graceSeconds: 120 } });
        await waitFor(async () => (await read(params.monitorId)).graceSeconds === 120, { what: 'the grace' });
        expect((await read(params.monitorId)).origin).toMatchObject({
          ...origin,
          ownedFields: ['callback', 'graceSeconds'],
        });
        await remove('mon', name);
        const { lifecycle, origin: left } = await read(params.monitorId);
        expect(lifecycle).toBe('active');
        expect(left).toMatchObject(origin);
        if (deletionPolicy === 'Orphan') return;
        const { note } = await fixture.eventAppears(name, 'Released');
        expect(note).toBe(
          `Left the monitor ${params.monitorId} as it is, because another object has taken it over: Monitor ${fixture.namespace}/${name} with another UID.`,
        );
      },
    );

    it('has its endpoint: the deletion of the older one removes nothing', async () => {
      await fixture.createCallback('moved');
      const { status } = await fixture.callbackBecomes('moved', 'Ready', 'True');
      const params = { endpointId: status?.endpointId ?? '' };
      const origin = { ...originOf('Callback', 'moved'), kind: 'Callback' as const };
      await fixture.api.expectSuccess('setCallbackOrigin', { params, body: { origin } });
      await remove('cb', 'moved');
      expect((await readCallback(params.endpointId)).origin).toMatchObject(origin);
      await fixture.eventAppears('moved', 'Released');
    });
  });
});
