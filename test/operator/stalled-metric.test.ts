// What the operator counts as stalled: the objects that it manages and can see.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MANAGED_BY } from '../../src/contract/crd/custom-resources.ts';
import { MONITORS } from '../../src/operator/kinds/monitor/monitor-object.ts';
import { SECRETS } from '../../src/operator/resources/core-resources.ts';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture, type TestOperator } from './operator-fixture.ts';

describe.skipIf(!hasCluster)('the metric of stalled objects', () => {
  let fixture: OperatorFixture;
  let operator: TestOperator;
  beforeAll(async () => {
    fixture = await openOperatorFixture();
    operator = await fixture.startOperator({ resyncMs: 200 });
  });
  afterAll(() => fixture.close());
  const ref = (name: string) => ({ namespace: fixture.namespace, name });
  const disabled = { callback: { kind: 'disabled' } };
  const count = (labels: Record<string, string>) =>
    metricValue(operator.registry, 'beatkeeper_operator_stalled_objects', labels);
  const becomes = (wanted: number, labels: Record<string, string>) =>
    waitFor(async () => (await count(labels)) === wanted, {
      what: `${wanted} objects with ${JSON.stringify(labels)}`,
    });

  it('an object counts by its reason while only a person can help it, and not while another object may', async () => {
    await fixture.kube.client.create(SECRETS, { metadata: ref('taken-beat'), data: {} });
    await fixture.createMonitor('taken', disabled);
    await fixture.createMonitor('waiting', { callback: { kind: 'named', callbackRef: { name: 'later' } } });
    await becomes(1, { kind: 'Monitor', reason: 'SecretConflict' });
    await fixture.monitorBecomes('waiting', 'Ready', 'False', 'CallbackNotFound');
    const spec = { publishSecretName: 'free' };
    await fixture.kube.client.mergePatch(MONITORS, ref('taken'), { spec });
    await becomes(0, { kind: 'Monitor', reason: 'SecretConflict' });
    expect(await count({})).toBe(0);
  });

  it('an object of another release is counted by that one alone', async () => {
    await fixture.createMonitor('given', { callback: { kind: 'inline', url: 'https://10.0.0.1/x' } });
    await becomes(1, { kind: 'Monitor', reason: 'Refused' });
    const metadata = { annotations: { [MANAGED_BY]: 'other/beatkeeper' } };
    await fixture.kube.client.mergePatch(MONITORS, ref('given'), { metadata });
    await becomes(0, { kind: 'Monitor', reason: 'Refused' });
    const { status } = await fixture.monitor('given');
    expect(status?.conditions?.find(({ type }) => type === 'Stalled')?.status).toBe('True');
  });
});
