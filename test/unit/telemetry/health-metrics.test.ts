// The checks of /readyz as a metric.
import { expect, it } from 'vitest';
import { createTelemetry } from '../../../src/telemetry/telemetry.ts';

const shown = (metrics: string) =>
  metrics.split('\n').filter((line) => line.startsWith('beatkeeper_health_check_failing{'));

it('each check is a series, also one whose fault leaves the process ready, and none when the process ends', async () => {
  const { readiness, registry } = createTelemetry({ role: 'test', logLevel: 'silent' });
  expect(shown(await registry.metrics())).toEqual([]);
  readiness.addCheck('database', async () => undefined);
  readiness.addCheck('database_eu', async () => 'is away', { isAdvice: true });
  expect(shown(await registry.metrics())).toEqual([
    'beatkeeper_health_check_failing{check="database"} 0',
    'beatkeeper_health_check_failing{check="database_eu"} 1',
  ]);
  readiness.beginShutdown();
  expect(shown(await registry.metrics())).toEqual([]);
});
