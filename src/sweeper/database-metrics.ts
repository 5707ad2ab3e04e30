// The metrics of the sweeper where there are several databases: each number has the label `database`. With one database no
// metric has it.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createSweeperMetrics, type SweeperMetrics } from './sweeper-metrics.ts';

type Labels = Record<string, string | number>;
type Write = (...args: unknown[]) => unknown;

/** Metrics of each of the databases, by name. Call it once per registry. */
export function createDatabaseMetrics(
  registry: Registry,
  names: readonly string[],
): (name: string) => SweeperMetrics {
  if (names.length < 2) {
    const metrics = createSweeperMetrics(registry);
    return () => metrics;
  }
  const shared = createSweeperMetrics(registry, ['database']);
  const own = new Map(names.map((database) => [database, labeled(shared, { database })]));
  return (name) => own.get(name) ?? shared;
}

function labeled(metrics: SweeperMetrics, labels: Labels): SweeperMetrics {
  for (const metric of Object.values(metrics)) showZero(metric, labels);
  const entries = Object.entries(metrics).map(([name, metric]) => [name, withLabels(metric, labels)]);
  return Object.fromEntries(entries) as SweeperMetrics;
}

/** A metric without labels of its own is 0 from the start: an alert on an increase needs the number before the first one. */
function showZero(metric: SweeperMetrics[keyof SweeperMetrics], labels: Labels): void {
  const { labelNames } = metric as unknown as { labelNames: readonly string[] };
  if (labelNames.length !== Object.keys(labels).length) return;
  if (metric instanceof Counter) metric.inc(labels, 0);
  if (metric instanceof Gauge) metric.set(labels, 0);
  if (metric instanceof Histogram) metric.zero(labels);
}

interface Removable {
  remove(labels: Labels): void;
}

/** `inc`, `set` and `observe` add the labels; `reset` takes away the series that were written by it. */
function withLabels<Metric extends object>(metric: Metric, labels: Labels): Metric {
  const written = new Map<string, Labels>();
  const write =
    (method: Write) =>
    (first?: unknown, ...rest: unknown[]) => {
      if (typeof first !== 'object') return method(labels, first ?? 1);
      const all = { ...first, ...labels };
      written.set(JSON.stringify(all), all);
      return method(all, ...rest);
    };
  const reset = () => {
    for (const series of written.values()) (metric as unknown as Removable).remove(series);
    written.clear();
  };
  return new Proxy(metric, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      const method = value.bind(target) as Write;
      if (name === 'reset') return reset;
      return name === 'inc' || name === 'set' || name === 'observe' ? write(method) : method;
    },
  });
}
