// The latest known status of each monitor, from the status feed or from a read of the monitor. In memory only, and only
// for monitors that an object stands for.
import type { MonitorStatus } from '../../contract/resources/monitor.ts';
import type { Lifecycle } from '../../domain/monitor.ts';
import type { Origin } from '../../domain/origin.ts';

export interface CachedMonitorStatus {
  lifecycle: Lifecycle;
  configurationVersion: number;
  status: MonitorStatus;
  origin?: Origin | undefined;
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

  /** Keeps the newer status. True if it is this one. */
  put(projectId: string, monitorId: string, latest: CachedMonitorStatus): boolean {
    const key = keyOf(projectId, monitorId);
    const known = this.#statuses.get(key);
    if (known !== undefined && known.atMs > latest.atMs) return false;
    this.#statuses.set(key, latest);
    return true;
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

function keyOf(projectId: string, monitorId: string): string {
  return `${projectId}/${monitorId}`;
}
