// An operator that does not lead: its caches are warm, and nothing heaps up while it waits.
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RestClient } from '../../src/client/rest-client.ts';
import { EventRecorder } from '../../src/kube/event-recorder.ts';
import { silentLog } from '../../src/kube/kube-log.ts';
import { createKubeMetrics } from '../../src/kube/kube-metrics.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createOperatorMetrics } from '../../src/operator/operator-metrics.ts';
import { OperatorRuntime } from '../../src/operator/operator-runtime.ts';
import { hasCluster } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { counted, type OperatorRoom, openRoom } from './operator-room.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator that stands by', () => {
  let room: OperatorRoom;
  beforeAll(async () => {
    room = await openRoom();
  });
  afterAll(() => room.close());

  it('has no queue, and works on everything from the moment that it leads', async () => {
    const registry = new Registry();
    const [kubeMetrics, metrics] = [createKubeMetrics(registry), createOperatorMetrics(registry)];
    const api = new RestClient({ apiUrl: room.fixture.url, tokenFile: room.tokenFile });
    const { client: kube } = room.kube;
    const log = silentLog;
    const events = new EventRecorder({
      client: kube,
      controller: 'beatkeeper.dev/operator',
      instance: 'standby',
    });
    const runtime = new OperatorRuntime({
      ...{ kube, api, events, log, metrics, kubeMetrics, watchNamespaces: [room.namespace] },
      tuning: { resyncMs: 3_600_000, lastBeatPeriodMs: 60_000, defaultCallbackNamespaces: [] },
    });
    await room.createMonitor('before', disabled);
    await runtime.startCaches();
    await room.createCallback('while');
    await room.createMonitor('while', disabled);
    await room.createMonitor('short', disabled);
    const { monitors, callbacks } = runtime.context;
    await waitFor(() => monitors.size === 3 && callbacks.size === 1, { what: 'the caches have them' });
    await room.kube.client.delete(MONITORS, { namespace: room.namespace, name: 'short' });
    await waitFor(() => monitors.size === 2, { what: 'the cache has it no more' });
    for (const name of ['monitor', 'callback']) {
      expect(await counted(registry, 'workqueue_depth', { name })).toBe(0);
    }
    await runtime.startWork();
    await room.monitorBecomes('before', 'Ready', 'True');
    await room.monitorBecomes('while', 'Ready', 'True');
    await room.callbackBecomes('while', 'Ready', 'True');
    await runtime.stopWork(5000);
    await runtime.stop();
    await events.stop();
    await api.close();
  });
});
