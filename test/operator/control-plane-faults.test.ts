// The cluster under a running operator fails: its API server is killed, etcd answers nothing, the definitions are removed. What
// was asked for meanwhile arrives once, and the operator says what is wrong.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { findControlPlaneBinaries } from '../../src/dev/control-plane/control-plane-binaries.ts';
import { applyCrds } from '../../src/install/apply-crds.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { hasCluster } from '../kube/cluster.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type MortalControlPlane, startMortalControlPlane } from '../support/control-plane.ts';
import { waitFor } from '../support/wait-for.ts';
import { ClusterGate } from './cluster-gate.ts';
import { collectLines } from './log-lines.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';
import { RefusingProxy } from './refusing-proxy.ts';
import { type RoleOperator, startRoleOperator } from './role-operator.ts';

const disabled = { callback: { kind: 'disabled' } };
const NAMESPACE = 'cluster-faults';
/** Of all operators here: one whose objects are of another release leaves them alone. */
const common = {
  watchTuning: { backoff: { baseMs: 100, maxMs: 500 } },
  release: `${NAMESPACE}/beatkeeper`,
};
const hasBinaries = hasCluster && (await findControlPlaneBinaries(() => undefined)) !== undefined;

describe.skipIf(!hasBinaries)('an operator whose cluster fails', () => {
  let plane: MortalControlPlane;
  let apiFixture: ApiFixture;
  let fixture: OperatorFixture;
  let gate: ClusterGate;
  beforeAll(async () => {
    const started = await startMortalControlPlane();
    if (started === undefined) throw new Error('There are no binaries of a control plane.');
    plane = started;
    apiFixture = await openApiFixture();
    fixture = await openOperatorFixture({ kubeconfig: plane.kubeconfig, namespace: NAMESPACE, apiFixture });
  });
  beforeEach(async () => {
    gate = await ClusterGate.start(plane.kubeconfig);
  });
  afterEach(() => gate.close());
  afterAll(async () => {
    try {
      await fixture?.close();
    } finally {
      await apiFixture?.close();
      await plane?.stop();
    }
  });

  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  /** What a person does whose command the API server does not take: again. */
  const insist = <T>(what: string, command: () => Promise<T>) =>
    waitFor(async () => (await command()) ?? true, { what, intervalMs: 200 });
  const change = (name: string, spec: object) =>
    insist(`${name} is changed`, () => fixture.kube.client.mergePatch(MONITORS, ref(name), { spec }));
  const make = (name: string, spec: object = {}) =>
    insist(`${name} is made`, async () => {
      const found = await fixture.kube.client.find(MONITORS, ref(name), { timeoutMs: 5000 });
      return found ?? (await fixture.createMonitor(name, { ...disabled, ...spec }));
    });
  const isGone = (name: string) =>
    waitFor(async () => (await fixture.kube.client.find(MONITORS, ref(name))) === undefined, {
      what: `${name} is gone`,
    });
  const recordOf = async (name: string) => {
    const { rows } = await apiFixture.pool.query('select monitor_id from monitors where name = $1', [name]);
    expect(rows).toHaveLength(1);
    return (await fixture.api.expectSuccess('getMonitor', { params: { monitorId: rows[0].monitor_id } }))
      .body;
  };

  it('an API server that is killed and started again gets what was under way, and the operator what comes right after', async () => {
    const api = await RefusingProxy.start(apiFixture.url);
    const said = collectLines();
    const { log } = said;
    const operator = await fixture.startOperator({ ...gate.options, log, apiUrl: api.url, ...common });
    for (const name of ['killed-old', 'killed-gone']) await make(name);
    for (const name of ['killed-old', 'killed-gone']) await fixture.monitorBecomes(name, 'Ready', 'True');
    const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    api.hold = (path) => {
      if (path !== '/v1/monitors') return undefined;
      held.resolve();
      return released.promise;
    };
    await make('killed-mid');
    await held.promise;
    await plane.killApiServer();
    released.resolve();
    await waitFor(() => operator.runtime.watchFailure, { what: 'the operator says that it cannot watch' });
    const failed = () => said.said('A reconcile failed and will be retried.');
    await waitFor(() => failed().some(({ key }) => String(key).endsWith('/killed-mid')), {
      what: 'the log names the object',
    });
    expect((await recordOf('killed-mid')).lifecycle).toBe('active');

    await plane.startApiServer();
    await change('killed-old', { graceSeconds: 333 });
    await make('killed-new', { graceSeconds: 444 });
    await insist('one is deleted', () => fixture.kube.client.delete(MONITORS, ref('killed-gone')));
    for (const name of ['killed-mid', 'killed-new']) await fixture.monitorBecomes(name, 'Ready', 'True');
    await waitFor(async () => (await recordOf('killed-old')).graceSeconds === 333, {
      what: 'the change has arrived',
    });
    await isGone('killed-gone');
    expect((await recordOf('killed-gone')).lifecycle).toBe('archived');
    expect((await recordOf('killed-new')).graceSeconds).toBe(444);
    await waitFor(() => operator.runtime.watchFailure === undefined, { what: 'the operator watches again' });
    expect([operator.calls.get('createMonitor'), operator.calls.get('updateMonitor')]).toEqual([4, 1]);
    expect(operator.calls.get('rotatePublishUrl')).toBeUndefined();
    expect(gate.stored('POST', '/secrets')).toHaveLength(4);
    const warned = said.said('Cannot list or watch the cluster; the reflector will try again.');
    expect(warned.some(({ level }) => level === 'warn')).toBe(true);
    await operator.stop();
    await api.close();
  });

  it('while etcd answers nothing no operator leads and beats count, and one leads by itself and completes the work afterwards', async () => {
    const kubeconfig = await gate.writeKubeconfig(fixture.tokenFile.replace(/\/token$/, ''));
    const { namespace, tokenFile } = fixture;
    const settings = { apiUrl: apiFixture.url, tokenFile, kubeconfig, namespace };
    const first = await startRoleOperator(settings);
    await make('etcd-old');
    await fixture.monitorBecomes('etcd-old', 'Ready', 'True');
    expect((await first.readiness.readReadiness()).status).toBe('ok');
    const { pathname } = new URL((await fixture.secret('etcd-old-beat'))?.url ?? '');

    plane.pauseEtcd();
    let second: RoleOperator;
    try {
      const commands = [make('etcd-new', { graceSeconds: 444 }), change('etcd-old', { graceSeconds: 333 })];
      for (const command of commands) command.catch(() => undefined);
      await first.lost;
      expect(first.said('Lost the leadership.')[0]?.level).toBe('error');
      await first.close();
      // As the kubelet does.
      second = await startRoleOperator(settings);
      const { status, checks } = await second.readiness.readReadiness();
      expect([status, checks.caches]).toEqual(['failing', 'failing']);
      expect((await second.readiness.readLife()).status).toBe('ok');
      expect((await fetch(`${apiFixture.url}${pathname}`)).status).toBe(200);
      plane.resumeEtcd();
      await Promise.all(commands);
    } finally {
      plane.resumeEtcd();
    }
    expect(
      (await recordOf((await fixture.monitorBecomes('etcd-new', 'Ready', 'True')).metadata.name))
        .graceSeconds,
    ).toBe(444);
    await waitFor(async () => (await recordOf('etcd-old')).graceSeconds === 333, {
      what: 'the change has arrived',
    });
    await waitFor(async () => (await fixture.monitor('etcd-old')).status?.health === 'up', {
      what: 'the beat is in the status',
    });
    await waitFor(async () => (await second.readiness.readReadiness()).status === 'ok', {
      what: 'it is ready',
    });
    for (const name of ['etcd-old', 'etcd-new'])
      expect(
        gate.writes.filter(({ method, body }) => method === 'POST' && body.includes(`"${name}-beat"`)).length,
      ).toBe(1);
    await second.close();
  });

  it('while etcd stands still for a second again and again each Monitor gets one monitor and its Secret', async () => {
    const said = collectLines();
    const operator = await fixture.startOperator({ ...gate.options, log: said.log, ...common });
    const names = Array.from({ length: 12 }, (_, i) => `slow-${i}`);
    const end = new AbortController();
    const pausing = (async () => {
      // The test is about these times.
      const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
      while (!end.signal.aborted) {
        plane.pauseEtcd();
        await pause(1000);
        plane.resumeEtcd();
        await pause(300);
      }
    })();
    try {
      await Promise.all(names.map((name) => make(name)));
      await Promise.all(names.map((name) => fixture.monitorBecomes(name, 'Ready', 'True')));
      await change('slow-0', { graceSeconds: 333 });
      await waitFor(async () => (await recordOf('slow-0')).graceSeconds === 333, {
        what: 'the change has arrived',
      });
    } finally {
      end.abort();
      await pausing;
    }
    for (const name of names) {
      const { publishUrl } = await recordOf(name);
      expect((await fixture.secret(`${name}-beat`))?.url).toBe(publishUrl);
    }
    expect(operator.calls.get('rotatePublishUrl')).toBeUndefined();
    expect(said.errors()).toEqual([]);
    await operator.stop();
  });

  it('the definition of Monitors that is removed and applied again ends the monitors and brings them back, and Callbacks go on meanwhile', async () => {
    const said = collectLines();
    const operator = await fixture.startOperator({ ...gate.options, log: said.log, ...common });
    const { client, transport } = fixture.kube;
    const { items } = await client.list(MONITORS, { namespace: fixture.namespace });
    for (const { metadata } of items) await client.delete(MONITORS, metadata);
    for (const { metadata } of items) await isGone(metadata.name);
    await make('defined');
    const { status } = await fixture.monitorBecomes('defined', 'Ready', 'True');
    const url = (await fixture.secret('defined-beat'))?.url;

    expect((await fixture.kubectl(['delete', 'crd', 'monitors.beatkeeper.dev', '--timeout=200s'])).code).toBe(
      0,
    );
    await waitFor(() => operator.runtime.watchFailure, { what: 'the operator says that it cannot watch' });
    expect(operator.runtime.watchFailure).toBe('The server does not serve monitors.');
    expect((await recordOf('defined')).lifecycle).toBe('archived');
    await fixture.createCallback('beside');
    await fixture.callbackBecomes('beside', 'Ready', 'True');

    await applyCrds({ transport, client });
    await make('defined', { graceSeconds: 333 });
    const again = await fixture.monitorBecomes('defined', 'Ready', 'True');
    expect(again.status?.monitorId).toBe(status?.monitorId);
    expect(await recordOf('defined')).toMatchObject({ lifecycle: 'active', graceSeconds: 333 });
    expect((await fixture.secret('defined-beat'))?.url).toBe(url);
    await waitFor(() => operator.runtime.watchFailure === undefined, { what: 'the operator watches again' });
    expect(said.errors()).toEqual([]);
    await operator.stop();
  });
});
