// Enqueues the Monitors that an item of the status feed or a change of a Callback concerns.
import type { StatusFeedItem } from '../../../contract/resources/status-feed.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { FeedListener } from '../../known/status-feed-follower.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { idOf } from '../../pass/identity.ts';
import type { CallbackObject } from '../callback/callback-object.ts';
import { concernsTargets } from '../callback/callback-watches.ts';
import { MONITOR_IDENTITY, type MonitorObject } from './monitor-object.ts';

export interface WatchedCaches {
  monitors: ObjectCache<MonitorObject>;
  callbacks: ObjectCache<CallbackObject>;
}

type Enqueue = (objects: Iterable<MonitorObject>) => void;

/** Subscribes to the feed, to Callbacks and to the Monitors themselves. */
export function watchMonitors(context: OperatorContext, caches: WatchedCaches, enqueue: Enqueue): void {
  const { bindings, feed, statusCache } = context;
  const { monitors, callbacks } = caches;
  feed.subscribe(new MonitorFeed(context, monitors, enqueue));
  monitors.subscribe(({ type, object, previous }) => {
    const former = type === 'deleted' ? object : previous;
    const isLeft =
      type === 'deleted' || (former && idOf(MONITOR_IDENTITY, former) !== idOf(MONITOR_IDENTITY, object));
    const { projectId, monitorId } = former?.status ?? {};
    if (isLeft && projectId !== undefined && monitorId !== undefined)
      statusCache.delete(projectId, monitorId);
  });
  callbacks.subscribe((change) => {
    if (!concernsTargets(change)) return;
    bindings.clear();
    enqueue(monitors.listBy('callbackRef', change.key));
    enqueue(monitors.listBy('waitsForCallback', 'true'));
  });
}

class MonitorFeed implements FeedListener {
  readonly #context: OperatorContext;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #enqueue: Enqueue;

  constructor(context: OperatorContext, monitors: ObjectCache<MonitorObject>, enqueue: Enqueue) {
    this.#context = context;
    this.#monitors = monitors;
    this.#enqueue = enqueue;
  }

  itemChanged(item: StatusFeedItem, atMs: number): void {
    this.#enqueue(this.#keep(item, atMs));
  }

  /** Enqueues only objects with another version. */
  itemListed(item: StatusFeedItem, atMs: number): void {
    const objects = this.#keep(item, atMs);
    this.#enqueue(objects.filter(({ status }) => status?.configurationVersion !== item.configurationVersion));
  }

  /** A monitor that was not listed was deleted through the API. A status without an object is forgotten. */
  listingEnded(listed: ReadonlySet<string>, sinceMs: number): void {
    const { statusCache } = this.#context;
    statusCache.retain((projectId, monitorId) => this.#objectsOf(projectId, monitorId).length > 0);
    for (const object of this.#monitors.values()) {
      const { projectId, monitorId } = object.status ?? {};
      if (projectId === undefined || monitorId === undefined || listed.has(`${projectId}/${monitorId}`))
        continue;
      const latest = statusCache.get(projectId, monitorId);
      if (latest === undefined || latest.atMs > sinceMs) continue;
      statusCache.delete(projectId, monitorId);
      this.#enqueue([object]);
    }
  }

  #keep(item: StatusFeedItem, atMs: number): MonitorObject[] {
    const { projectId, monitorId, lifecycle, configurationVersion, status, origin } = item;
    const objects = this.#objectsOf(projectId, monitorId);
    const latest = { lifecycle, configurationVersion, status, origin, atMs };
    if (objects.length > 0) this.#context.statusCache.put(projectId, monitorId, latest);
    return objects;
  }

  /** Objects that stand for the monitor or may do so: before its first status, the project of an object is unknown. */
  #objectsOf(projectId: string, monitorId: string): MonitorObject[] {
    return this.#monitors
      .listBy('id', monitorId)
      .filter(({ status }) => status?.projectId === undefined || status.projectId === projectId);
  }
}
