// The metrics of Monitors: computed at each scrape from what the operator remembers, and kept nowhere. A standby has none.
import { setImmediate } from 'node:timers/promises';
import { Gauge, type MetricObjectWithValues, type MetricValue, type Registry } from 'prom-client';
import type { FollowedMonitor } from './kinds/monitor/followed-monitors.ts';

export interface MonitorMetricsOptions {
  /** The Monitors of this operator, if it leads; undefined if it does not. */
  list(): readonly FollowedMonitor[] | undefined;
  /** How many Monitors have series. */
  max: number;
}

type Value = MetricValue<string>;

/** Registers the metrics: once per registry. */
export function registerMonitorMetrics(registry: Registry, { list, max }: MonitorMetricsOptions): void {
  const scrapes = new Scrapes(() => {
    const monitors = list();
    return monitors && chooseMonitors(monitors, max);
  });
  const gauge = (name: string, help: string, labelNames: string[], read: (chosen: Chosen) => Value[]) =>
    new ScrapedGauge({ name, help, labelNames, registers: [registry] }, scrapes, read);
  for (const { name, help, labels = [], valuesOf } of SERIES) {
    const read = ({ monitors }: Chosen) => monitors.flatMap(valuesOf);
    gauge(`beatkeeper_monitor_${name}`, help, ['namespace', 'name', ...labels], read);
  }
  const omitted =
    'Monitors whose series are left out, because more have some than metrics.monitors.max allows.';
  gauge('beatkeeper_monitor_series_omitted', omitted, [], (chosen) => [
    { labels: {}, value: chosen.omitted },
  ]);
}

interface Series {
  name: string;
  help: string;
  labels?: string[];
  valuesOf(monitor: FollowedMonitor): Value[];
}

const SERIES: readonly Series[] = [
  {
    name: 'health',
    help: '1 for the present health of a Monitor; the others are absent.',
    labels: ['health'],
    valuesOf: ({ namespace, name, status: { health } }) => [
      { labels: { namespace, name, health }, value: 1 },
    ],
  },
  {
    name: 'last_beat_timestamp_seconds',
    help: 'Time of the last beat; absent before the first one.',
    valuesOf: (monitor) => seriesOf(monitor, secondsOf(monitor.status.lastBeatAt)),
  },
  {
    name: 'next_deadline_timestamp_seconds',
    help: 'When the next beat is due, grace included; absent while no clock runs.',
    valuesOf: (monitor) => seriesOf(monitor, secondsOf(monitor.status.nextDeadlineAt)),
  },
  {
    name: 'last_run_duration_seconds',
    help: 'How long the newest run took whose start was reported; absent without one.',
    valuesOf: (monitor) => seriesOf(monitor, monitor.status.lastDurationSeconds),
  },
  {
    name: 'open_incidents',
    help: 'Incidents that have not ended; absent where there are none.',
    labels: ['kind', 'severity'],
    valuesOf: ({ namespace, name, status: { openIncidents } }) => {
      const counts = Map.groupBy(openIncidents, ({ kind, severity }) => `${kind} ${severity}`);
      return [...counts.values()].map((alike) => {
        const [{ kind, severity } = { kind: '', severity: '' }] = alike;
        return { labels: { namespace, name, kind, severity }, value: alike.length };
      });
    },
  },
];

function secondsOf(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time) / 1000;
}

function seriesOf({ namespace, name }: FollowedMonitor, value: number | undefined): Value[] {
  return value === undefined ? [] : [{ labels: { namespace, name }, value }];
}

export interface Chosen {
  monitors: readonly FollowedMonitor[];
  omitted: number;
}

/**
 * At most `max` of the Monitors: the oldest of each namespace, and of each namespace as many, so that one with very many
 * takes the places of no other, and a new Monitor ends the series of no older one of its namespace.
 */
export function chooseMonitors(monitors: readonly FollowedMonitor[], max: number): Chosen {
  if (monitors.length <= max) return { monitors, omitted: 0 };
  const byNamespace = Map.groupBy(monitors, ({ namespace }) => namespace);
  const queues = [...byNamespace].sort(([a], [b]) => compare(a, b)).map(([, queue]) => queue);
  for (const queue of queues) queue.sort((a, b) => compare(a.age, b.age));
  const chosen: FollowedMonitor[] = [];
  for (let place = 0; chosen.length < max; place += 1) {
    for (const { [place]: monitor } of queues) if (monitor && chosen.length < max) chosen.push(monitor);
  }
  return { monitors: chosen, omitted: monitors.length - max };
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** What the metrics of one scrape share. They are read in turns, so that the process can do other things in between. */
class Scrapes {
  readonly #choose: () => Chosen | undefined;
  #current: { chosen: Chosen | undefined } | undefined;
  #turns: Promise<void> = Promise.resolve();

  constructor(choose: () => Chosen | undefined) {
    this.#choose = choose;
  }

  /** The registry asks all metrics of a scrape at once: they get the same answer. */
  async read(): Promise<Chosen | undefined> {
    this.#current ??= { chosen: this.#choose() };
    const { chosen } = this.#current;
    this.#turns = this.#turns.then(() => setImmediate());
    await this.#turns;
    this.#current = undefined;
    return chosen;
  }
}

class ScrapedGauge extends Gauge {
  readonly #scrapes: Scrapes;
  readonly #read: (chosen: Chosen) => Value[];

  constructor(
    configuration: ConstructorParameters<typeof Gauge>[0],
    scrapes: Scrapes,
    read: (chosen: Chosen) => Value[],
  ) {
    super(configuration);
    this.#scrapes = scrapes;
    this.#read = read;
  }

  override async get(): Promise<MetricObjectWithValues<Value>> {
    const chosen = await this.#scrapes.read();
    return { ...(await super.get()), values: chosen === undefined ? [] : this.#read(chosen) };
  }
}
