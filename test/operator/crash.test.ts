// Whatever an operator leaves when it is killed between two steps, the next one completes.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { openValidSecrets } from '../../src/service/callbacks/endpoint-seal.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { Crash, runUntilDead } from './crashing-clients.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const url = 'http://127.0.0.1:9/alerts';
const spec = {
  intervalSeconds: 300,
  lifecycle: 'paused',
  callback: { kind: 'inline', url },
  measurements: { rows: { minimum: 1 } },
};

describe.skipIf(!hasCluster)('an operator that is killed', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  async function openSecrets(endpointId: string) {
    const { rows } = await fixture.apiFixture.pool.query(
      'select project_id from callback_endpoints where endpoint_id = $1',
      [endpointId],
    );
    const ref = { projectId: rows[0]?.project_id, endpointId };
    return await openValidSecrets(fixture.apiFixture.pool, fixture.apiFixture.secrets, ref);
  }

  const isReady = async (name: string) => {
    const objects = [await fixture.monitor(name), await fixture.callback(name)];
    return objects.every(({ status, metadata }) => {
      const synced = status?.conditions?.find(({ type }) => type === 'Synced');
      return synced?.status === 'True' && synced.observedGeneration === metadata.generation;
    });
  };

  async function expectWhole(
    name: string,
    wanted: { interval: number; lifecycle: string; statesLifecycle?: boolean },
  ): Promise<void> {
    const [object, callback] = [await fixture.monitor(name), await fixture.callback(name)];
    const { rows: monitors } = await fixture.apiFixture.pool.query(
      'select monitor_id from monitors where name = $1',
      [name],
    );
    expect(monitors).toEqual([{ monitor_id: object.status?.monitorId }]);
    const { rows: endpoints } = await fixture.apiFixture.pool.query(
      'select endpoint_id from callback_endpoints where alias = $1 and removed_at is null',
      [name],
    );
    expect(endpoints).toEqual([{ endpoint_id: callback.status?.endpointId }]);
    const params = { monitorId: object.status?.monitorId ?? '' };
    const { body } = await fixture.api.expectSuccess('getMonitor', { params });
    expect(body).toMatchObject({ intervalSeconds: wanted.interval, lifecycle: wanted.lifecycle });
    expect(body.measurements.rows?.minimum).toBe(1);
    expect(object.status).toMatchObject({
      lifecycle: wanted.lifecycle,
      configurationVersion: body.configurationVersion,
      ownedFields: [
        'callback',
        'intervalSeconds',
        ...(wanted.statesLifecycle === false ? [] : ['lifecycle']),
        'measurements.rows',
        'measurements.rows.minimum',
      ],
    });
    const beat = await fixture.secret(`${name}-beat`);
    expect(beat?.url).toBe(body.publishUrl);
    const { body: binding } = await fixture.api.expectSuccess('getMonitorBinding', { params });
    expect((await openSecrets(binding.target?.endpointId ?? ''))[0]).toBe(beat?.signingSecret);
    const signing = await fixture.secret(`${name}-signing`);
    expect((await openSecrets(callback.status?.endpointId ?? ''))[0]).toBe(signing?.secret);
  }

  it.each(['before', 'after'] as const)(
    'a creation is completed by the next operator when one dies %s any write',
    async (mode) => {
      let isDead = true;
      let count = 0;
      for (; isDead; count += 1) {
        const name = `made-${mode}-${count}`;
        await fixture.createCallback(name, { alias: name });
        await fixture.createMonitor(name, { ...spec });
        const crash = new Crash(count + 1, mode);
        isDead = await runUntilDead(fixture, crash, () => isReady(name));
        const next = await fixture.startOperator();
        await waitFor(() => isReady(name), { what: `${name} is complete after ${crash.writes.at(-1)}` });
        await expectWhole(name, { interval: 300, lifecycle: 'paused' });
        await next.stop();
        const ref = { namespace: fixture.namespace, name };
        await fixture.kube.client.mergePatch(MONITORS, ref, { metadata: { finalizers: null } });
        await fixture.kube.client.mergePatch(CALLBACKS, ref, { metadata: { finalizers: null } });
        await fixture.kube.client.delete(MONITORS, ref);
        await fixture.kube.client.delete(CALLBACKS, ref);
      }
      expect(count).toBeGreaterThan(11);
    },
    600_000,
  );

  it.each(['before', 'after'] as const)(
    'a takeover by origin is completed by the next operator when one dies %s any write',
    async (mode) => {
      let isDead = true;
      let count = 0;
      const { lifecycle: _lifecycle, ...active } = spec;
      for (; isDead; count += 1) {
        const name = `again-${mode}-${count}`;
        const ref = { namespace: fixture.namespace, name };
        const make = async (more: object = {}) => {
          await fixture.createCallback(name, { alias: name });
          await fixture.createMonitor(name, { ...active, ...more });
        };
        await make({ recoveryBeats: 3 });
        const first = await fixture.startOperator();
        await waitFor(() => isReady(name), { what: `${name} is made` });
        const { status } = await fixture.monitor(name);
        const { status: endpoint } = await fixture.callback(name);
        const { client } = fixture.kube;
        await client.delete(MONITORS, ref);
        await waitFor(async () => (await client.find(MONITORS, ref)) === undefined, {
          what: 'it is archived',
        });
        await first.stop();
        await client.mergePatch(CALLBACKS, ref, { metadata: { finalizers: null } });
        await client.delete(CALLBACKS, ref);

        await make();
        isDead = await runUntilDead(fixture, new Crash(count + 1, mode), () => isReady(name));
        const next = await fixture.startOperator();
        await waitFor(() => isReady(name), { what: `${name} is complete` });
        await expectWhole(name, { interval: 300, lifecycle: 'active', statesLifecycle: false });
        const params = { monitorId: status?.monitorId ?? '' };
        expect((await fixture.monitor(name)).status?.monitorId).toBe(params.monitorId);
        const { body } = await fixture.api.expectSuccess('getMonitor', { params });
        expect(body.recoveryBeats).toBe(1);
        expect((await fixture.callback(name)).status?.endpointId).toBe(endpoint?.endpointId);
        await fixture.eventAppears(name, 'Adopted');
        await next.stop();
      }
      expect(count).toBeGreaterThan(15);
    },
    600_000,
  );

  it.each(['before', 'after'] as const)(
    'a change and a deletion are completed by the next operator when one dies %s any write',
    async (mode) => {
      let isDead = true;
      let count = 0;
      for (; isDead; count += 1) {
        const name = `changed-${mode}-${count}`;
        const ref = { namespace: fixture.namespace, name };
        await fixture.createCallback(name, { alias: name });
        await fixture.createMonitor(name, { ...spec, graceSeconds: 90 });
        const first = await fixture.startOperator();
        await waitFor(() => isReady(name), { what: `${name} is made` });
        const { status } = await fixture.monitor(name);
        const { status: endpoint } = await fixture.callback(name);
        await first.stop();
        await fixture.kube.client.mergePatch(MONITORS, ref, {
          spec: { intervalSeconds: 600, graceSeconds: null, lifecycle: 'active' },
        });
        await fixture.kube.client.mergePatch(CALLBACKS, ref, {
          metadata: { annotations: { 'beatkeeper.dev/rotate': 'now' } },
        });
        const isChanged = async () => {
          const isRotated = (await fixture.callback(name)).status?.lastRotation?.value === 'now';
          return isRotated && (await isReady(name));
        };
        isDead = await runUntilDead(fixture, new Crash(count + 1, mode), isChanged);
        const next = await fixture.startOperator();
        await waitFor(isChanged, { what: `${name} is changed` });
        await expectWhole(name, { interval: 600, lifecycle: 'active' });
        await next.stop();

        await fixture.kube.client.delete(MONITORS, ref);
        await fixture.kube.client.delete(CALLBACKS, ref);
        const isGone = async () =>
          (await fixture.kube.client.find(MONITORS, ref)) === undefined &&
          (await fixture.kube.client.find(CALLBACKS, ref)) === undefined;
        const isDeadAgain = await runUntilDead(fixture, new Crash(count + 1, mode), isGone);
        isDead ||= isDeadAgain;
        const last = await fixture.startOperator();
        await waitFor(isGone, { what: `${name} is gone` });
        await last.stop();
        expect([await fixture.secret(`${name}-beat`), await fixture.secret(`${name}-signing`)]).toEqual([
          undefined,
          undefined,
        ]);
        const { body } = await fixture.api.expectSuccess('getMonitor', {
          params: { monitorId: status?.monitorId ?? '' },
        });
        expect(body.lifecycle).toBe('archived');
        const gone = await fixture.api.call('getCallback', {
          params: { endpointId: endpoint?.endpointId ?? '' },
        });
        expect(gone.status).toBe(404);
      }
      expect(count).toBeGreaterThan(6);
    },
    600_000,
  );
});
