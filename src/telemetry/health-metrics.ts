// What /readyz says, as a metric: a process may be ready while a check fails, and somebody must hear of it.
import { Gauge, type Registry } from 'prom-client';
import type { Readiness } from './readiness.ts';

/** Asks the checks with each scrape, at most once a second. A process that starts or ends has none. */
export function measureHealth(readiness: Readiness, registry: Registry): void {
  new Gauge({
    name: 'beatkeeper_health_check_failing',
    help: '1 while a check of /readyz fails, else 0.',
    labelNames: ['check'],
    registers: [registry],
    async collect() {
      const { checks } = await readiness.readReadiness();
      this.reset();
      for (const [check, result] of Object.entries(checks)) this.set({ check }, result === 'failing' ? 1 : 0);
    },
  });
}
