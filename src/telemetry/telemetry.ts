// How an operator observes a role: log, metrics, readiness.
import { collectDefaultMetrics, Registry } from 'prom-client';
import { createLog, type Log } from './log.ts';
import { Readiness } from './readiness.ts';

export interface Telemetry {
  log: Log;
  registry: Registry;
  readiness: Readiness;
}

/** Creates the telemetry of a process, with Node's own metrics in the registry. */
export function createTelemetry(options: { role: string; logLevel: string }): Telemetry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const log = createLog({ role: options.role, level: options.logLevel });
  return { log, registry, readiness: new Readiness(log) };
}
