// Many Monitors: a restart without a change writes nothing and reads little, mere beats are written rarely, a Rule about all
// of them is applied bit by bit, and of two operators one leads.
import type { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { type KubeRequest, KubeTransport } from '../../src/kube/kube-transport.ts';
import { MONITORS, type MonitorObject } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { startOperator } from '../../src/operator/start-operator.ts';
import type { Readiness } from '../../src/telemetry/readiness.ts';
import type { Running } from '../../src/telemetry/run-until-signal.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { adminKubeconfig, hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { Crash } from './crashing-clients.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const LEASES: KubeResource<KubeObject & { spec?: { holderIdentity?: string } }> = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const COUNT = 250;
const spec = { intervalSeconds: 300, callback: { kind: 'disabled' } } as MonitorObject['spec'];

describe.skipIf(!hasCluster)(`${COUNT} Monitors`, () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const list = async () => {
    const items: MonitorObject[] = [];
    for await (const item of fixture.kube.client.listAll(MONITORS, { namespace: fixture.namespace }))
      items.push(item);
    return items;
  };
  const isReady = ({ status }: MonitorObject) =>
    status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;

  it('many Monitors are created, and a restart without a change writes nothing and reads little', async () => {
    const create = (name: string) =>
      fixture.kube.client.create(MONITORS, { metadata: { name, namespace: fixture.namespace }, spec });
    for (let i = 0; i < COUNT; i += 10)
      await Promise.all(Array.from({ length: 10 }, (_, one) => create(`m${i + one}`)));
    const first = await fixture.startOperator({ resyncMs: 60_000 });
    await waitFor(async () => (await list()).every(isReady), {
      what: 'all are ready',
      timeoutMs: 800_000,
      intervalMs: 500,
    });
    expect(first.calls.get('createMonitor')).toBe(COUNT);
    await first.stop();
    const before = (await list()).map(({ metadata }) => metadata.resourceVersion);

    const crash = new Crash(Number.POSITIVE_INFINITY, 'before');
    const second = await fixture.startOperator({ ...crash.clients, resyncMs: 60_000 });
    const { Monitor } = second.runtime.workers;
    const isLookedAt = () =>
      [...Monitor.objects].every((object) => Monitor.memoryOf(object).secretCheckedAtMs !== undefined);
    await waitFor(isLookedAt, { what: 'each Monitor was checked', timeoutMs: 300_000 });
    expect(crash.writes).toEqual([]);
    expect(second.calls.get('getMonitor')).toBeUndefined();
    expect(second.calls.get('getMonitorBinding')).toBeUndefined();
    // The feed is polled all the time.
    const others = [...second.calls].filter(([operation]) => operation !== 'getStatusFeed');
    expect(others).toEqual([['listProjects', 1]]);
    expect((await list()).map(({ metadata }) => metadata.resourceVersion)).toEqual(before);
    await second.stop();
  }, 1_200_000);

  it('a beat writes only lastBeatAt, at most once a period, and reads no Secret', async () => {
    const secretsRead: string[] = [];
    class Listening extends KubeTransport {
      override async request(request: KubeRequest): Promise<unknown> {
        if (request.path.endsWith('/secrets/m0-beat')) secretsRead.push(request.method);
        return await super.request(request);
      }
    }
    const startedMs = performance.now();
    const operator = await fixture.startOperator({
      makeTransport: (options) => new Listening(options),
      resyncMs: 200,
      lastBeatPeriodMs: 3000,
    });
    await fixture.beat('m0-beat');
    const first = await waitFor(async () => (await fixture.monitor('m0')).status?.lastBeatAt, {
      what: 'the first beat',
    });
    const writes = () =>
      metricValue(operator.registry, 'beatkeeper_operator_status_writes_total', { kind: 'Monitor' });
    const before = await writes();
    const beganMs = performance.now();
    for (let i = 0; i < 5; i += 1) await fixture.beat('m0-beat');
    const isLater = async () => ((await fixture.monitor('m0')).status?.lastBeatAt ?? '') > first;
    await waitFor(isLater, { what: 'the last beat' });
    const periods = Math.ceil((performance.now() - beganMs) / 3000);
    expect((await writes()) - before).toBeLessThanOrEqual(1 + periods);
    // 250 objects at 40 checks a second: each is checked every 6.25 s, less the jitter, whatever `resyncMs` is.
    const looks = Math.ceil((performance.now() - startedMs) / 5_000);
    expect(secretsRead.length).toBeLessThanOrEqual(looks);
    await operator.stop();
  });

  it('a Rule about all of them says how far it is, goes on in the next operator, and changes each Monitor once', async () => {
    const definition = { minimum: 1 };
    await fixture.createRule('all', { selector: {}, measurementKey: 'rows', definition });
    const first = await fixture.startOperator({ resyncMs: 600_000 });
    const progressed = async () => {
      const { monitors } = (await fixture.rule('all')).status ?? {};
      return (monitors?.applied ?? 0) > 20 ? monitors : undefined;
    };
    const partly = await waitFor(progressed, { what: 'some have it', timeoutMs: 300_000 });
    expect(partly.progress).toBe(`applied ${partly.applied} of ${COUNT}`);
    await first.stop();
    const done = first.calls.get('updateMonitor') ?? 0;
    expect(done).toBeLessThan(COUNT);
    const second = await fixture.startOperator({ resyncMs: 600_000 });
    const isWhole = async () => (await fixture.rule('all')).status?.monitors?.applied === COUNT;
    await waitFor(isWhole, { what: 'all have it', timeoutMs: 800_000, intervalMs: 500 });
    const calls = done + (second.calls.get('updateMonitor') ?? 0);
    // A pass that was under way at the end of the first operator may not have written its status.
    expect(calls).toBeGreaterThanOrEqual(COUNT);
    expect(calls).toBeLessThanOrEqual(COUNT + 8);
    const found = await fixture.ruleBecomes('all', 'Ready', 'True', 'Applied');
    expect(found.status?.display).toEqual({ monitors: `${COUNT}` });
    await second.stop();
  }, 1_200_000);

  it('one of two operators leads, and one that ends in order lets the other lead before the lease expires', async () => {
    const settings = {
      apiUrl: fixture.apiFixture.url,
      tokenFile: fixture.tokenFile,
      kubeconfig: adminKubeconfig,
      watchNamespaces: [fixture.namespace],
      defaultCallbackNamespaces: [],
      namespace: fixture.namespace,
      leaseName: 'beatkeeper-operator',
      lastBeatPeriodSeconds: 60,
      orphans: 'Keep' as const,
      monitorMetricsMax: 20_000,
      workloads: true,
      workloadLogs: false,
    };
    const start = async (): Promise<Running & { registry: Registry; readiness: Readiness }> => {
      const telemetry = createTelemetry({ role: 'operator', logLevel: 'silent' });
      const running = await startOperator(settings, telemetry, { onLost: () => undefined });
      return { ...running, registry: telemetry.registry, readiness: telemetry.readiness };
    };
    const ref = { namespace: fixture.namespace, name: settings.leaseName };
    const holder = async () => (await fixture.kube.client.get(LEASES, ref)).spec?.holderIdentity;
    const leads = (registry: Registry) => metricValue(registry, 'leader_election_master_status', {});
    const one = await start();
    await waitFor(async () => (await leads(one.registry)) === 1, { what: 'the first leads' });
    const first = await holder();
    expect(first).toBeTruthy();
    const two = await start();
    const isReadyToServe = async () => (await two.readiness.readReadiness()).status === 'ok';
    await waitFor(isReadyToServe, { what: 'the second is a standby with full caches' });
    expect(await two.readiness.readLife()).toMatchObject({ status: 'ok' });
    expect(await leads(two.registry)).toBe(0);
    await fixture.createMonitor('by-one', spec);
    await fixture.monitorBecomes('by-one', 'Ready', 'True');
    const metrics = { namespace: fixture.namespace, name: 'by-one', health: 'waiting' };
    expect(await metricValue(one.registry, 'beatkeeper_monitor_health', metrics)).toBe(1);
    expect(await metricValue(two.registry, 'beatkeeper_monitor_health', metrics)).toBe(0);
    await one.close();
    expect(await metricValue(one.registry, 'beatkeeper_monitor_health', metrics)).toBe(0);
    expect(await holder()).not.toBe(first);
    await fixture.createMonitor('by-two', spec);
    await fixture.monitorBecomes('by-two', 'Ready', 'True');
    expect(await leads(two.registry)).toBe(1);
    await two.close();
  });
});
