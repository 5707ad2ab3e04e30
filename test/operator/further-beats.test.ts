// Beats that come while a Monitor waits for its write anyway cost the operator no pass; other news do at once.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { hasCluster, metricValue } from '../kube/cluster.ts';
import { waitFor } from '../support/wait-for.ts';
import { type OperatorFixture, openOperatorFixture } from './operator-fixture.ts';

let fixture: OperatorFixture;
beforeAll(async () => {
  if (hasCluster) fixture = await openOperatorFixture();
});
afterAll(() => fixture?.close());

const FURTHER = 16;

it.skipIf(!hasCluster)('of many beats in a period only the first ones have a pass', async () => {
  const operator = await fixture.startOperator({ resyncMs: 600_000, lastBeatPeriodMs: 600_000 });
  const { Monitor } = operator.runtime.workers;
  const passes = () =>
    metricValue(operator.registry, 'controller_runtime_reconcile_total', { controller: 'monitor' });
  const items = () => metricValue(operator.registry, 'beatkeeper_operator_feed_items_total', {});
  const beat = async () => {
    const before = await items();
    await fixture.beat('backup-beat');
    await waitFor(async () => (await items()) > before, { what: 'the feed brings the beat' });
  };
  await fixture.createMonitor('backup', { intervalSeconds: 3600, callback: { kind: 'disabled' } });
  await fixture.monitorBecomes('backup', 'Ready', 'True');
  await beat();
  const shown = async () => (await fixture.monitor('backup')).status?.lastBeatAt;
  const first = await waitFor(shown, { what: 'the first beat' });
  await beat();
  const isHeldBack = () =>
    [...Monitor.objects].every((object) => Monitor.memoryOf(object).beatWaitsUntilMs !== undefined);
  await waitFor(isHeldBack, { what: 'a pass has held the second beat back' });
  const before = await passes();
  for (let i = 0; i < FURTHER; i += 1) await beat();
  expect(await shown()).toBe(first);
  await fixture.beat('backup-beat', '/fail');
  await waitFor(async () => (await fixture.monitor('backup')).status?.health === 'down', { what: 'down' });
  // That of the failure, and those of the watch that brings its status and of the incident.
  expect((await passes()) - before).toBeLessThan(FURTHER / 2);
  expect(await shown()).not.toBe(first);
});
