// An operator that does not lead: its caches are warm, and no work piles up while it waits.
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RestClient } from '../../src/client/rest-client.ts';
import { EventRecorder } from '../../src/kube/event-recorder.ts';
import { silentLog } from '../../src/kube/kube-log.ts';
import { createKubeMetrics } from '../../src/kube/kube-metrics.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { createOperatorMetrics } from '../../src/operator/operator-metrics.ts';
import { OperatorRuntime } from '../../src/operator/operator-runtime.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

const disabled = { callback: { kind: 'disabled' } };

describe.skipIf(!hasCluster)('an operator that stands by', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  it('a standby fills its caches without queueing work, and works on every object when it leads', async () => {
    const registry = new Registry();
    const [kubeMetrics, metrics] = [createKubeMetrics(registry), createOperatorMetrics(registry)];
    const api = new RestClient({ apiUrl: fixture.apiFixture.url, tokenFile: fixture.tokenFile });
    const { client: kube } = fixture.kube;
    const log = silentLog;
    const events = new EventRecorder({
      client: kube,
      controller: 'beatkeeper.dev/operator',
      instance: 'standby',
    });
    const runtime = new OperatorRuntime({
      ...{ kube, api, events, log, metrics, kubeMetrics, watchNamespaces: [fixture.namespace] },
      tuning: { resyncMs: 3_600_000, lastBeatPeriodMs: 60_000, defaultCallbackNamespaces: [] },
    });
    await fixture.createMonitor('before', disabled);
    await runtime.startCaches();
    await fixture.createCallback('while');
    await fixture.createMonitor('while', disabled);
    await fixture.createMonitor('short', disabled);
    const { monitors, callbacks } = runtime.context;
    await waitFor(() => monitors.size === 3 && callbacks.size === 1, { what: 'the caches have all objects' });
    await fixture.kube.client.delete(MONITORS, { namespace: fixture.namespace, name: 'short' });
    await waitFor(() => monitors.size === 2, { what: 'the cache without the deleted Monitor' });
    for (const name of ['monitor', 'callback']) {
      expect(await metricValue(registry, 'workqueue_depth', { name })).toBe(0);
    }
    await runtime.startWork();
    await fixture.monitorBecomes('before', 'Ready', 'True');
    await fixture.monitorBecomes('while', 'Ready', 'True');
    await fixture.callbackBecomes('while', 'Ready', 'True');
    await runtime.stopWork(5000);
    await runtime.stop();
    await events.stop();
    await api.close();
  });
});
