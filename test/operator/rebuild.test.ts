// A cluster that is made anew from the same YAML, with the database kept: nobody notices. Two control planes in turn.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openValidSecrets } from '../../src/service/callbacks/endpoint-seal.ts';
import { adminKubeconfig, hasCluster } from '../kube/cluster.ts';
import { startTestControlPlane, type TestControlPlane } from '../support/control-plane.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

// A kubeconfig that is given leads to one cluster.
const canRebuild = hasCluster && !process.env.TEST_KUBECONFIG;
const INTERVAL_MS = 300_000;
const GRACE_MS = 60_000;
const names = ['backup', 'report', 'paused'];

describe.skipIf(!canRebuild)('a cluster that is rebuilt from its YAML', () => {
  let plane: TestControlPlane | undefined;
  let old: OperatorFixture;
  let fresh: OperatorFixture;
  beforeAll(async () => {
    old = await openOperatorFixture();
    plane = await startTestControlPlane();
    const { namespace, apiFixture } = old;
    fresh = await openOperatorFixture({
      ...{ kubeconfig: plane?.kubeconfig ?? adminKubeconfig, namespace, apiFixture },
    });
  });
  afterAll(async () => {
    await fresh.close();
    await old.close();
    await plane?.stop();
  });

  /** The YAML in Git. */
  async function apply(cluster: OperatorFixture): Promise<void> {
    await cluster.createCallback('oncall');
    const cadence = { intervalSeconds: INTERVAL_MS / 1000, graceSeconds: GRACE_MS / 1000 };
    const callback = { kind: 'named', callbackRef: { name: 'oncall' } };
    const spec = { ...cadence, awaitFirstBeat: true, callback };
    await cluster.createMonitor('backup', { ...spec, measurements: { rows: { minimum: 1 } } });
    await cluster.createMonitor('report', spec);
    await cluster.createMonitor('paused', { ...spec, lifecycle: 'paused' });
  }

  async function stateOf(cluster: OperatorFixture) {
    const callback = await cluster.callbackBecomes('oncall', 'Ready', 'True');
    const monitors = [];
    for (const name of names) {
      const { status, metadata } = await cluster.monitorBecomes(name, 'Ready', 'True');
      monitors.push({
        id: status?.monitorId,
        uid: metadata.uid,
        url: (await cluster.secret(`${name}-beat`))?.url,
      });
    }
    return { callback, monitors, signing: await cluster.secret('oncall-signing') };
  }

  const incidents = async () => (await old.api.expectSuccess('listIncidents', { query: {} })).body.items;

  it('has the same publish addresses and endpoints, no false incident, and a new signing secret beside the old one', async () => {
    const { pool, secrets } = old.apiFixture;
    await apply(old);
    const first = await old.startOperator();
    const before = await stateOf(old);
    for (const name of ['backup', 'report']) {
      await old.beat(`${name}-beat`);
      await waitFor(async () => (await old.monitor(name)).status?.health === 'up', { what: `${name} is up` });
    }
    await first.stop();

    // It has no object, and shows what the deadlines of the others would have led to.
    const { body: control } = await old.api.expectSuccess('createMonitor', {
      body: { name: 'control', intervalSeconds: 300, awaitFirstBeat: false, callback: { kind: 'disabled' } },
    });
    // The deadlines passed while there was no cluster, and so no sweeper.
    await pool.query(
      `update monitor_live set anchor_ms = anchor_ms - $1, deadline_ms = deadline_ms - $1, wake_ms = wake_ms - $1
       where deadline_ms is not null`,
      [2 * (INTERVAL_MS + GRACE_MS)],
    );
    await apply(fresh);
    const startedMs = Date.now();
    const second = await fresh.startOperator();
    const after = await stateOf(fresh);
    const idsOf = ({ monitors }: typeof before) => monitors.map(({ id, url }) => ({ id, url }));
    expect(idsOf(after)).toEqual(idsOf(before));
    expect(after.monitors.map(({ uid }) => uid)).not.toEqual(before.monitors.map(({ uid }) => uid));
    expect(after.callback.status?.endpointId).toBe(before.callback.status?.endpointId);
    const { body } = await old.api.expectSuccess('listMonitors', { query: {} });
    expect(body.items).toHaveLength(names.length + 1);
    for (const name of names) await fresh.eventAppears(name, 'Adopted');

    const ref = {
      projectId: after.callback.status?.projectId ?? '',
      endpointId: after.callback.status?.endpointId ?? '',
    };
    const valid = await openValidSecrets(pool, secrets, ref);
    expect(valid).toEqual([after.signing?.secret, before.signing?.secret]);

    for (const name of ['backup', 'report']) {
      const { nextDeadlineAt } = (await fresh.monitor(name)).status ?? {};
      expect(Date.parse(nextDeadlineAt ?? '')).toBeGreaterThanOrEqual(startedMs + INTERVAL_MS + GRACE_MS);
    }
    expect((await fresh.monitor('paused')).status?.lifecycle).toBe('paused');
    await moveClock(pool);
    await drain(makeSweep(pool));
    expect((await incidents()).map(({ monitorId }) => monitorId)).toEqual([control.monitorId]);
    // The jobs know nothing of it.
    const address = new URL(before.monitors[0]?.url ?? '');
    expect((await fetch(`${old.apiFixture.url}${address.pathname}`)).status).toBe(200);

    // Another start changes nothing.
    await second.stop();
    const third = await fresh.startOperator();
    await fresh.createMonitor('fence', { callback: { kind: 'disabled' } });
    await fresh.monitorBecomes('fence', 'Ready', 'True');
    expect(third.calls.get('setMonitorOrigin')).toBeUndefined();
    expect(third.calls.get('setCallbackOrigin')).toBeUndefined();
    expect(third.calls.get('rotateSigningSecret')).toBeUndefined();
    await third.stop();
  }, 900_000);

  it('keeps its monitors and its endpoint when the old cluster comes back and is torn down', async () => {
    const [first, second] = [await old.startOperator(), await fresh.startOperator()];
    const params = { endpointId: (await old.callback('oncall')).status?.endpointId ?? '' };
    expect((await old.kubectl(['delete', 'mon,cb', '--all', '--timeout=200s'])).code).toBe(0);
    for (const name of names) {
      await old.eventAppears(name, 'Released');
      const { status } = await fresh.monitorBecomes(name, 'Synced', 'True');
      expect(status?.lifecycle).toBe(name === 'paused' ? 'paused' : 'active');
    }
    expect((await old.api.call('getCallback', { params })).status).toBe(200);
    await first.stop();
    await second.stop();
  }, 900_000);
});
