// An operator that does not lead: its caches are warm, and no work piles up while it waits.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
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
    await fixture.createMonitor('before', disabled);
    const { runtime, registry } = await fixture.startOperator({ isStandby: true, resyncMs: 3_600_000 });
    await fixture.createCallback('while');
    await fixture.createMonitor('while', disabled);
    await fixture.createMonitor('short', disabled);
    const { Monitor: monitors, Callback: callbacks } = runtime.workers;
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
  });
});
