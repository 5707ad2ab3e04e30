// The metrics of the sweeper where there are several databases: each number has the label `database`. With one database no
// metric has it.
import type { Registry } from 'prom-client';
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
  const entries = Object.entries(metrics).map(([name, metric]) => [name, withLabels(metric, labels)]);
  return Object.fromEntries(entries) as SweeperMetrics;
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
