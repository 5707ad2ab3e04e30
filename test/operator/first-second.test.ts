// What an object shows from its first second on: to people, and to tools that wait for it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { kstatusOf } from '../support/kstatus.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('an object', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());
  const disabled = { callback: { kind: 'disabled' } };
  const stalled = ({ status }: Awaited<ReturnType<OperatorFixture['monitor']>>) =>
    status?.conditions?.find(({ type }) => type === 'Stalled');

  it('an object that no operator has seen is not ready, and says so in its conditions', async () => {
    await fixture.createMonitor('new', disabled);
    await fixture.createCallback('new');
    for (const object of [await fixture.monitor('new'), await fixture.callback('new')]) {
      const pending = { status: 'Unknown', reason: 'Pending' };
      expect(object.status?.conditions?.slice(0, 2)).toMatchObject([
        { type: 'Synced', ...pending },
        { type: 'Ready', ...pending },
      ]);
      expect(kstatusOf(object)).toBe('InProgress');
    }
    const wide = (await fixture.kubectl(['get', 'mon', 'new', '-o', 'wide'])).stdout;
    expect(wide).toMatch(/READY +REASON +AGE/);
    expect(wide).toMatch(/Unknown +Pending/);
  });

  it('a condition counts from what the operator has found, and not from the default of the schema', async () => {
    const startedMs = Date.now();
    await fixture.startOperator();
    const monitor = await fixture.monitorBecomes('new', 'Ready', 'True');
    for (const { type, lastTransitionTime } of monitor.status?.conditions ?? []) {
      expect([type, Date.parse(lastTransitionTime) >= startedMs - 1000]).toEqual([type, true]);
    }
    expect(kstatusOf(monitor)).toBe('Current');
    expect(kstatusOf(await fixture.callbackBecomes('new', 'Ready', 'True'))).toBe('Current');
  });

  it('an object that only a person can help is stalled, until its spec is another one', async () => {
    await fixture.createMonitor('refused', { callback: { kind: 'inline', url: 'https://10.0.0.1/x' } });
    const refused = await fixture.monitorBecomes('refused', 'Stalled', 'True', 'Refused');
    expect(stalled(refused)?.message).toContain('service.callback_destination_rejected');
    expect(kstatusOf(refused)).toBe('Failed');
    const ref = { namespace: fixture.namespace, name: 'refused' };
    const callback = { kind: 'disabled', url: null };
    const changed = await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { callback } });
    expect(kstatusOf(changed)).toBe('InProgress');
    const ready = await fixture.monitorBecomes('refused', 'Ready', 'True');
    expect(stalled(ready)).toBeUndefined();
    expect(kstatusOf(ready)).toBe('Current');
  });

  it('an object that waits for another one is in progress and not stalled', async () => {
    const callback = { kind: 'named', callbackRef: { name: 'later' } };
    await fixture.createMonitor('waiting', { callback });
    const waiting = await fixture.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    expect([stalled(waiting), kstatusOf(waiting)]).toEqual([undefined, 'InProgress']);
    await fixture.createCallback('hidden', { url: undefined, urlSecretRef: { name: 'none', key: 'url' } });
    const hidden = await fixture.callbackBecomes('hidden', 'Ready', 'False', 'SecretNotFound');
    expect(kstatusOf(hidden)).toBe('InProgress');
  });

  it('a Callback that its spec disables is settled, and so are the Monitors that it leaves without alerts', async () => {
    await fixture.createCallback('off', { lifecycle: 'disabled' });
    const off = await fixture.callbackBecomes('off', 'Ready', 'True', 'Disabled');
    expect(kstatusOf(off)).toBe('Current');
    const said = off.status?.conditions?.find(({ type }) => type === 'Ready')?.message;
    expect(said).toContain('To enable it, set lifecycle to active.');
    await fixture.createMonitor('silent', {
      callback: { kind: 'named', callbackRef: { name: 'off' } },
    });
    const silent = await fixture.monitorBecomes('silent', 'Stalled', 'True', 'EndpointDisabled');
    expect(kstatusOf(silent)).toBe('Failed');
    const ref = { namespace: fixture.namespace, name: 'off' };
    await fixture.kube.client.mergePatch(CALLBACKS, ref, { spec: { lifecycle: 'active' } });
    await fixture.callbackBecomes('off', 'Ready', 'True', 'Available');
    expect(kstatusOf(await fixture.monitorBecomes('silent', 'Ready', 'True'))).toBe('Current');
  });

  it('a Callback that was disabled through the API, and not by its spec, is stalled until its spec says what is meant', async () => {
    await fixture.createCallback('hushed');
    const { status } = await fixture.callbackBecomes('hushed', 'Ready', 'True');
    const params = { endpointId: status?.endpointId ?? '' };
    const { etag } = await fixture.api.expectSuccess('getCallback', { params });
    const body = { lifecycle: 'disabled' };
    await fixture.api.expectSuccess('updateCallback', { params, ifMatch: etag, body });
    const hushed = await fixture.callbackBecomes('hushed', 'Stalled', 'True', 'EndpointDisabled');
    expect(kstatusOf(hushed)).toBe('Failed');
    const ref = { namespace: fixture.namespace, name: 'hushed' };
    await fixture.kube.client.mergePatch(CALLBACKS, ref, { spec: { lifecycle: 'disabled' } });
    const meant = await fixture.callbackBecomes('hushed', 'Ready', 'True', 'Disabled');
    expect(kstatusOf(meant)).toBe('Current');
    await fixture.kube.client.mergePatch(CALLBACKS, ref, { spec: { lifecycle: 'active' } });
    await fixture.callbackBecomes('hushed', 'Ready', 'True', 'Available');
  });

  it('a refused Callback shows the kind that it asks for', async () => {
    await fixture.createCallback('private', { url: 'https://10.0.0.1/x' });
    await fixture.callbackBecomes('private', 'Ready', 'False');
    expect((await fixture.kubectl(['get', 'cb', 'private'])).stdout).toMatch(/private +webhook +.*False/);
  });

  it('a Monitor whose workload is not there yet says so, and is ready all the same', async () => {
    const workloadRef = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'backup' };
    await fixture.createMonitor('worked', { ...disabled, workloadRef });
    const monitor = await fixture.monitorBecomes('worked', 'WorkloadWatched', 'False', 'WorkloadNotFound');
    expect(kstatusOf(await fixture.monitorBecomes('worked', 'Ready', 'True'))).toBe('Current');
    const said = monitor.status?.conditions?.find(({ type }) => type === 'WorkloadWatched');
    expect(said?.message).toMatch(/^There is no CronJob backup in this namespace: /);
    const ref = { namespace: fixture.namespace, name: 'worked' };
    await fixture.kube.client.mergePatch(MONITORS, ref, { spec: { workloadRef: null } });
    const without = await fixture.monitorBecomes('worked', 'Synced', 'True');
    expect(without.status?.conditions?.map(({ type }) => type)).toEqual(['Synced', 'Ready', 'Healthy']);
  });

  it('kubectl selects Monitors and Callbacks by fields of their status', async () => {
    const names = async (kind: string, selector: string) =>
      (await fixture.kubectl(['get', kind, '-o', 'name', '--field-selector', selector])).stdout;
    const { status } = await fixture.monitor('new');
    expect(await names('mon', `status.monitorId=${status?.monitorId}`)).toBe('monitor.beatkeeper.dev/new\n');
    expect(await names('mon', 'status.health=waiting')).toContain('monitor.beatkeeper.dev/new');
    expect(await names('mon', 'status.health=down')).toBe('');
    expect(await names('cb', 'status.alias=new')).toBe('callback.beatkeeper.dev/new\n');
  });
});
