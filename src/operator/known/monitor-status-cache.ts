// The latest known status of each monitor, from the status feed or from a read of the monitor. In memory only, and only
// for monitors that an object stands for.
import { isDeepStrictEqual } from 'node:util';
import type { MonitorStatus } from '../../contract/resources/monitor.ts';
import type { Lifecycle } from '../../domain/monitor.ts';
import type { Origin } from '../../domain/origin.ts';

export interface CachedMonitorStatus {
  lifecycle: Lifecycle;
  configurationVersion: number;
  status: MonitorStatus;
  /** Why, in one sentence, which only the feed has. */
  because?: string | undefined;
  origin?: Origin | undefined;
  /** The operator that sends its beats. */
  beatenBy?: string | undefined;
  /** When the read began or the feed brought it, ms of the process's clock. */
  atMs: number;
}

export class MonitorStatusCache {
  readonly #statuses = new Map<string, CachedMonitorStatus>();

  get size(): number {
    return this.#statuses.size;
  }

  get(projectId: string, monitorId: string): CachedMonitorStatus | undefined {
    return this.#statuses.get(keyOf(projectId, monitorId));
  }

  /** Keeps the newer status. Returns this one, with the sentence that is known for it. */
  put(projectId: string, monitorId: string, latest: CachedMonitorStatus): CachedMonitorStatus {
    const key = keyOf(projectId, monitorId);
    const known = this.#statuses.get(key);
    const because = latest.because ?? (known && isToldAlike(known, latest) ? known.because : undefined);
    const whole = { ...latest, because };
    if (known === undefined || known.atMs <= latest.atMs) this.#statuses.set(key, whole);
    return whole;
  }

  /** After this, the next pass over its object reads the monitor. */
  delete(projectId: string, monitorId: string): void {
    this.#statuses.delete(keyOf(projectId, monitorId));
  }

  /** Forgets all others: those of a former project, or of an object whose status never named its monitor. */
  retain(isHeld: (projectId: string, monitorId: string) => boolean): void {
    for (const key of this.#statuses.keys()) {
      const slash = key.indexOf('/');
      if (!isHeld(key.slice(0, slash), key.slice(slash + 1))) this.#statuses.delete(key);
    }
  }
}

/**
 * Whether the sentence of one is that of the other: else the feed has an item to come, with a sentence of its own. Where it
 * names no beat it is the same after further beats: a status without it would be written, and once more with it.
 */
function isToldAlike(a: CachedMonitorStatus, b: CachedMonitorStatus): boolean {
  if (a.configurationVersion !== b.configurationVersion) return false;
  const [one, other] = namesBeat(b) ? [a.status, b.status] : [withoutBeats(a), withoutBeats(b)];
  return isDeepStrictEqual(one, other);
}

/** The last beat and the deadline, or since when no beat has come. */
function namesBeat({ status: { health, openIncidents } }: CachedMonitorStatus): boolean {
  if (health === 'down') return openIncidents.some(({ kind }) => kind === 'missed_deadline');
  return health === 'up' || health === 'late' || health === 'waiting';
}

function withoutBeats({ status: { health, maintenance, openIncidents } }: CachedMonitorStatus): object {
  return { health, maintenance, openIncidents };
}

function keyOf(projectId: string, monitorId: string): string {
  return `${projectId}/${monitorId}`;
}
