// Enqueues the Monitors that an item of the status feed or a change of a Callback concerns.
import type { StatusFeedItem } from '../../../contract/resources/status-feed.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import { projectNameOf } from '../../known/project-directory.ts';
import type { FeedListener } from '../../known/status-feed-follower.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { idOf } from '../../pass/identity.ts';
import type { Enqueue } from '../../pass/kind.ts';
import type { CallbackObject } from '../callback/callback-object.ts';
import { changesRejection, concernsDefault, concernsTargets } from '../callback/callback-watches.ts';
import { changesGivenRules, names } from '../rule/matching.ts';
import { objectsNear, type RuleObject } from '../rule/rule-object.ts';
import { type BeatWrites, isFurtherBeat } from './beat-writes.ts';
import { changesChains, changesDependents } from './dependencies-of-monitor.ts';
import { MONITOR_IDENTITY, type MonitorObject } from './monitor-object.ts';
import { isBeatItem } from './monitor-status.ts';
import { RuleSpread } from './rules/rule-spread.ts';

export interface WatchedCaches {
  monitors: ObjectCache<MonitorObject>;
  callbacks: ObjectCache<CallbackObject>;
  rules: ObjectCache<RuleObject>;
}

/** What it needs of the passes. */
export interface MonitorPasses {
  beats: Pick<BeatWrites, 'isHoldingBack'>;
  enqueue: Enqueue<MonitorObject>;
}

/** Subscribes to the feed, to Callbacks, to Rules and to the Monitors themselves. */
export function watchMonitors(context: OperatorContext, caches: WatchedCaches, passes: MonitorPasses): void {
  const { enqueue } = passes;
  const { bindings, feed, statusCache } = context;
  const { monitors, callbacks, rules } = caches;
  feed.subscribe(new MonitorFeed(context, monitors, passes));
  monitors.subscribe(({ type, object, previous }) => {
    const former = type === 'deleted' ? object : previous;
    const isLeft =
      type === 'deleted' || (former && idOf(MONITOR_IDENTITY, former) !== idOf(MONITOR_IDENTITY, object));
    const { projectId, monitorId } = former?.status ?? {};
    if (isLeft && projectId !== undefined && monitorId !== undefined)
      statusCache.delete(projectId, monitorId);
  });
  monitors.subscribe(({ type, key, object, previous }) => {
    if (type !== 'updated' || changesDependents(previous, object)) enqueue(monitors.listBy('dependsOn', key));
    if (type === 'updated' && !changesChains(previous, object)) return;
    const refused = monitors.listBy('dependencyRefused', object.metadata.namespace ?? '');
    for (const one of refused) monitors.memoryOf(one).refusedDependencies = undefined;
    enqueue(refused);
  });
  callbacks.subscribe((change) => {
    const isRejection = changesRejection(change);
    if (!isRejection && !concernsTargets(change)) return;
    const { object, previous } = change;
    // As a pass has found it. The status says it also of a deleted Callback; at worst, other answers are read again.
    const memory = callbacks.memoryOf(object);
    const projectId = memory.held?.projectId ?? object.status?.projectId;
    const { defaultCallbackNamespaces: allowed } = context.settings;
    const isDefault = [object, previous].some((one) => one && concernsDefault(one, memory, allowed));
    bindings.clear({ projectId, isDefault });
    // Behind others: a project with very many Monitors has as many to look at.
    enqueue(monitors.listBy('callbackRef', change.key), 'low');
    const project = projectNameOf(context, object);
    const isOfProject = (monitor: MonitorObject) => projectNameOf(context, monitor) === project;
    enqueue(monitors.listBy('waitsForCallback', 'project').filter(isOfProject), 'low');
    if (isDefault) enqueue(monitors.listBy('waitsForCallback', 'default'), 'low');
    if (!isRejection) return;
    // Also those that are ready: they wait for nothing, and may be ready no more.
    const alias = object.status?.alias;
    if (alias !== undefined) enqueue(monitors.listBy('alertsTo', alias).filter(isOfProject), 'low');
    if (isDefault) enqueue(monitors.listBy('alertsTo', 'default'), 'low');
  });
  const spread = new RuleSpread((keys) =>
    enqueue(
      keys.flatMap((key) => monitors.get(key) ?? []),
      'low',
    ),
  );
  // What a Job has done goes before mere beats: its run may be open at the API and nowhere else.
  context.workloads?.caches.subscribe((keys, change) => {
    if (change === 'workload') for (const key of keys) enqueue(monitors.listBy('workload', key));
  });
  context.workloads?.reports.subscribe((key, isStart) => {
    const monitor = monitors.get(key);
    if (monitor !== undefined) enqueue([monitor], isStart ? 'normal' : 'low');
  });
  rules.subscribe(({ type, object, previous }) => {
    if (type === 'updated' && !changesGivenRules(previous, object)) return;
    const isConcerned = (monitor: MonitorObject) =>
      names(object, monitor) || (previous !== undefined && names(previous, monitor));
    const near = [object, previous ?? object].flatMap((rule) => objectsNear(monitors, rule));
    spread.add(near.filter(isConcerned).map(objectKey));
  });
}

class MonitorFeed implements FeedListener {
  readonly #context: OperatorContext;
  readonly #monitors: ObjectCache<MonitorObject>;
  readonly #passes: MonitorPasses;

  constructor(context: OperatorContext, monitors: ObjectCache<MonitorObject>, passes: MonitorPasses) {
    this.#context = context;
    this.#monitors = monitors;
    this.#passes = passes;
  }

  /** Mere beats go behind what people wait for, and need no pass while one comes for an earlier beat anyway. */
  itemChanged(item: StatusFeedItem, atMs: number): void {
    const { projectId, monitorId } = item;
    const known = this.#context.statusCache.get(projectId, monitorId);
    const latest = { ...item, atMs };
    const isFurther = isFurtherBeat(known, latest);
    const { beats, enqueue } = this.#passes;
    for (const object of this.#keep(item, atMs)) {
      if (isFurther && beats.isHoldingBack(object, this.#monitors.memoryOf(object))) continue;
      enqueue([object], isBeatItem(object, latest) ? 'low' : 'normal');
    }
  }

  /** Enqueues only objects with another version. */
  itemListed(item: StatusFeedItem, atMs: number): void {
    const objects = this.#keep(item, atMs);
    this.#passes.enqueue(
      objects.filter(({ status }) => status?.configurationVersion !== item.configurationVersion),
    );
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
      this.#passes.enqueue([object]);
    }
  }

  #keep(item: StatusFeedItem, atMs: number): MonitorObject[] {
    const { projectId, monitorId, ...shown } = item;
    const objects = this.#objectsOf(projectId, monitorId);
    const { lifecycle, configurationVersion, status, origin, beatenBy, because } = shown;
    const latest = { lifecycle, configurationVersion, status, origin, beatenBy, because, atMs };
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
