// Endpoints whose Callback was deleted while no operator could see it: they are counted and named, and never removed.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeLog } from '../../src/kube/kube-log.ts';
import { CALLBACKS } from '../../src/operator/kinds/callback/callback-object.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('an endpoint whose Callback was deleted while nothing was installed', () => {
  let fixture: OperatorFixture;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
  });
  afterAll(() => fixture.close());

  const named: unknown[] = [];
  const log: KubeLog = {
    debug: () => undefined,
    info: () => undefined,
    warn: (facts, message) => {
      if (message?.startsWith('Endpoints at the API have lost')) named.push(facts);
    },
    error: () => undefined,
  };
  const start = () =>
    fixture.startOperator({
      ...{ resyncMs: 100, orphans: 'Archive', orphanArchiveAfterMs: 0, log },
      defaultCallbackNamespaces: [fixture.namespace],
    });
  const make = async (name: string, spec = {}) => {
    await fixture.createCallback(name, spec);
    return (await fixture.callbackBecomes(name, 'Ready', 'True')).status?.endpointId ?? '';
  };
  const counted = async (operator: TestOperator, wanted: number) =>
    await waitFor(
      async () => (await metricValue(operator.registry, 'beatkeeper_callbacks_orphaned', {})) === wanted,
      { what: `${wanted} endpoints are counted` },
    );

  it('it is counted and named once, a default one first, goes on as it is, and is counted no more when it is applied again', async () => {
    const before = await start();
    const lost = await make('lost');
    const general = await make('standard', { organizationDefault: true });
    await make('kept');
    await before.stop();
    for (const name of ['lost', 'standard']) {
      const ref = { namespace: fixture.namespace, name };
      await fixture.kube.client.mergePatch(CALLBACKS, ref, { metadata: { finalizers: null } });
      await fixture.kube.client.delete(CALLBACKS, ref);
    }
    const operator = await start();
    await counted(operator, 2);
    const first = `${fixture.namespace}/standard (${general}, the organization's default)`;
    const objects = [first, `${fixture.namespace}/lost (${lost})`];
    expect(named).toEqual([{ orphaned: 2, new: 2, objects }]);
    for (const endpointId of [lost, general]) {
      const { body } = await fixture.api.expectSuccess('getCallback', { params: { endpointId } });
      expect(body.lifecycle).toBe('active');
    }
    expect(await make('lost')).toBe(lost);
    await counted(operator, 1);
    expect(named).toHaveLength(1);
    // One that is disabled gets no alerts.
    const { etag } = await fixture.api.expectSuccess('getCallback', { params: { endpointId: general } });
    await fixture.api.expectSuccess('updateCallback', {
      ...{ params: { endpointId: general }, ifMatch: etag },
      body: { lifecycle: 'disabled' },
    });
    await counted(operator, 0);
    await operator.stop();
  });
});
