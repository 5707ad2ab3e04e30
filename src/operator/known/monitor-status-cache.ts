// The state of each monitor as it was last heard of: from the status feed, or from a read of the monitor itself.
// In memory alone, and only for monitors that objects stand for.
import type { MonitorStatus } from '../../contract/resources/monitor.ts';
import type { Lifecycle } from '../../domain/monitor.ts';

export interface CachedMonitorStatus {
  lifecycle: Lifecycle;
  configurationVersion: number;
  status: MonitorStatus;
  /** When it was asked for (a read) or came (the feed), by the process's own clock, ms. */
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

  /** Keeps the newer one. True if it was this. */
  put(projectId: string, monitorId: string, live: CachedMonitorStatus): boolean {
    const key = keyOf(projectId, monitorId);
    const known = this.#statuses.get(key);
    if (known !== undefined && known.atMs > live.atMs) return false;
    this.#statuses.set(key, live);
    return true;
  }

  /** Not known any more: the next look at its object reads the monitor. */
  delete(projectId: string, monitorId: string): void {
    this.#statuses.delete(keyOf(projectId, monitorId));
  }

  /** Forgets the others: those of a former project, or of an object whose status never named its monitor. */
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
