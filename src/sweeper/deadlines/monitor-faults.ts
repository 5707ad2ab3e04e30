// Monitors that a sweep could not wake or write. Each is met again every few seconds or minutes until somebody mends it: each
// time is counted, and one in an hour is logged.
import type { Log } from '../../telemetry/log.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';

/** Whose fault it is: of a monitor, or of a project as a whole. */
export interface FaultPlace {
  projectId: string;
  monitorKey?: string;
}

const LOGGED_EVERY_MS = 3_600_000;
/** Places that are remembered at most: the one that was logged first is forgotten, and logged again. */
const MOST_PLACES = 10_000;

export class MonitorFaults {
  readonly #log: Pick<Log, 'error'>;
  readonly #metrics: Pick<SweeperMetrics, 'monitorFaults'>;
  readonly #now: () => number;
  /** When each place was logged last, the earliest first. */
  readonly #loggedAt = new Map<string, number>();

  /** `now`: monotonic, ms. */
  constructor(
    { log, metrics }: { log: Pick<Log, 'error'>; metrics: Pick<SweeperMetrics, 'monitorFaults'> },
    now = () => performance.now(),
  ) {
    this.#log = log;
    this.#metrics = metrics;
    this.#now = now;
  }

  /** Counts the fault, and logs it unless one of the same place was logged within the hour. */
  record(place: FaultPlace, err: unknown, message: string): void {
    this.#metrics.monitorFaults.inc();
    const key = `${place.projectId}/${place.monitorKey ?? ''}`;
    const loggedAt = this.#loggedAt.get(key);
    if (loggedAt !== undefined && this.#now() - loggedAt < LOGGED_EVERY_MS) return;
    this.#loggedAt.delete(key);
    this.#loggedAt.set(key, this.#now());
    const [first] = this.#loggedAt.keys();
    if (first !== undefined && this.#loggedAt.size > MOST_PLACES) this.#loggedAt.delete(first);
    this.#log.error({ err, ...place }, message);
  }
}
