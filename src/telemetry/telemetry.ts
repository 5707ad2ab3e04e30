// How an operator observes a role: log, metrics, readiness.
import { collectDefaultMetrics, Registry } from 'prom-client';
import { measureHealth } from './health-metrics.ts';
import { createLog, type Log } from './log.ts';
import { Readiness } from './readiness.ts';

export interface Telemetry {
  log: Log;
  registry: Registry;
  readiness: Readiness;
}

/** Creates the telemetry of a process, with Node's own metrics and those of its health in the registry. */
export function createTelemetry(options: { role: string; logLevel: string }): Telemetry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const log = createLog({ role: options.role, level: options.logLevel });
  const readiness = new Readiness(log);
  measureHealth(readiness, registry);
  return { log, registry, readiness };
}
