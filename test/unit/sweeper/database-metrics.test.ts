// The numbers of the sweeper where there are several databases.
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createDatabaseMetrics } from '../../../src/sweeper/database-metrics.ts';

it('a counter of each database is 0 before its first event, so that an alert on its increase sees the first one', async () => {
  const registry = new Registry();
  const metricsOf = createDatabaseMetrics(registry, ['default', 'eu']);
  const shown = async () => (await registry.metrics()).split('\n');
  for (const database of ['default', 'eu']) {
    expect(await shown()).toContain(`beatkeeper_deliveries_lost_total{database="${database}"} 0`);
    expect(await shown()).toContain(`beatkeeper_sweep_due_lag_seconds{database="${database}"} 0`);
    expect(await shown()).toContain(`beatkeeper_delivery_latency_seconds_count{database="${database}"} 0`);
  }
  metricsOf('eu').deliveriesLost.inc();
  expect(await shown()).toContain('beatkeeper_deliveries_lost_total{database="eu"} 1');
  expect(await shown()).toContain('beatkeeper_deliveries_lost_total{database="default"} 0');
});
