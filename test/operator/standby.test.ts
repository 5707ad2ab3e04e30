// An operator that does not lead: its caches are warm, and no work piles up while it waits.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiAnswer, type CallOptions, RestClient } from '../../src/client/rest-client.ts';
import type { OperationId, OperationRequest } from '../../src/contract/operations/operations.ts';
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

  it('an operator whose work has ended, as after the loss of its lease, looks for no orphans any more', async () => {
    let [listings, feeds] = [0, 0];
    /** The feed is followed by long polls, and listed by other calls. */
    class CountingClient extends RestClient {
      override async call<Id extends OperationId>(
        operation: Id,
        request: OperationRequest<Id>,
        options?: CallOptions,
      ): Promise<ApiAnswer<Id>> {
        const answer = await super.call(operation, request, options);
        if (operation === 'getStatusFeed' && options?.isLongPoll) feeds += 1;
        else if (operation === 'getStatusFeed') listings += 1;
        return answer;
      }
    }
    const makeClient = (options: ConstructorParameters<typeof RestClient>[0]) => new CountingClient(options);
    const { runtime } = await fixture.startOperator({ resyncMs: 50, makeClient });
    await fixture.monitorBecomes('before', 'Ready', 'True');
    await waitFor(() => listings > 3, { what: 'some listings' });
    await runtime.stopWork(5000);
    const [listed, fed] = [listings, feeds];
    for (let beat = 1; beat <= 4; beat += 1) {
      await fixture.beat('before-beat', beat % 2 === 0 ? '' : '/fail');
      await waitFor(() => feeds >= fed + beat, { what: 'the feed has brought the beat', intervalMs: 100 });
    }
    expect(listings).toBe(listed);
  });
});
