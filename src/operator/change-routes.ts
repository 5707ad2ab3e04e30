// Which objects are to be looked at again when something in the cluster or in the feed has changed. Enqueues, no more.
import type { StatusFeedItem } from '../contract/resources/status-feed.ts';
import { findCondition } from '../kube/conditions.ts';
import { type KubeObject, objectKey } from '../kube/kube-object.ts';
import type { StoreChange } from '../kube/object-store.ts';
import type { CallbackObject } from './kinds/callback/callback-object.ts';
import { isSameTarget } from './kinds/callback/callback-reconciler.ts';
import type { MonitorObject } from './kinds/monitor/monitor-object.ts';
import type { OperatorContext } from './operator-context.ts';
import { endpointIdOf, monitorIdOf } from './resources/identity.ts';
import { ANNOTATION } from './resources/names.ts';

export type Enqueue = (key: string) => void;

export interface Queues {
  monitor: Enqueue;
  callback: Enqueue;
}

export class ChangeRoutes {
  readonly #context: OperatorContext;
  readonly #queues: Queues;

  constructor(context: OperatorContext, queues: Queues) {
    this.#context = context;
    this.#queues = queues;
  }

  monitorChanged(change: StoreChange<MonitorObject>): void {
    const { object, previous, key, type } = change;
    this.#queues.monitor(key);
    const former = type === 'deleted' ? object : previous;
    if (type === 'deleted') this.#context.monitorMemories.forget(object.metadata.uid ?? '');
    if (former === undefined || (type === 'updated' && monitorIdOf(former) === monitorIdOf(object))) return;
    const { projectId, monitorId } = former.status ?? {};
    if (projectId !== undefined && monitorId !== undefined)
      this.#context.statusCache.delete(projectId, monitorId);
    this.#enqueueAll(this.#queues.monitor, this.#context.monitors.listBy('id', monitorIdOf(former)));
  }

  callbackChanged(change: StoreChange<CallbackObject>): void {
    const { object, previous, key, type } = change;
    const { callbacks, callbackMemories, bindings, monitors } = this.#context;
    this.#queues.callback(key);
    const former = type === 'deleted' ? object : previous;
    if (type === 'deleted') callbackMemories.forget(object.metadata.uid ?? '');
    if (former !== undefined && (type === 'deleted' || endpointIdOf(former) !== endpointIdOf(object))) {
      this.#enqueueAll(this.#queues.callback, callbacks.listBy('id', endpointIdOf(former)));
    }
    if (type === 'updated' && isSameTarget(previous, object) && isSameAsking(previous, object)) return;
    if (object.spec.organizationDefault || former?.spec.organizationDefault) {
      this.#enqueueAll(this.#queues.callback, [...callbacks.values()].filter(concernsDefault));
    }
    // An alias may be free now.
    callbackMemories.forgetRefusals('service.conflict');
    this.#enqueueAll(this.#queues.callback, callbacks.listBy('waitsForAlias', 'true'));
    bindings.clear();
    this.#enqueueAll(this.#queues.monitor, monitors.listBy('callbackRef', objectKey(object)));
    this.#enqueueAll(this.#queues.monitor, monitors.listBy('waitsForCallback', 'true'));
  }

  namespaceChanged(change: StoreChange<KubeObject>): void {
    const { object, previous, type } = change;
    const project = (namespace: KubeObject | undefined) =>
      namespace?.metadata.annotations?.[ANNOTATION.project];
    if (type === 'updated' && project(object) === project(previous)) return;
    const { name } = object.metadata;
    this.#enqueueAll(this.#queues.monitor, this.#context.monitors.listInNamespace(name));
    this.#enqueueAll(this.#queues.callback, this.#context.callbacks.listInNamespace(name));
  }

  /** What came by the feed. */
  followed(item: StatusFeedItem, atMs: number): void {
    for (const object of this.#hear(item, atMs)) this.#queues.monitor(objectKey(object));
  }

  /** What a reading of everything has shown: only what does not fit is looked at. */
  listed(item: StatusFeedItem, atMs: number): void {
    for (const object of this.#hear(item, atMs)) {
      if (object.status?.configurationVersion !== item.configurationVersion)
        this.#queues.monitor(objectKey(object));
    }
  }

  /**
   * After a reading of everything, begun at `sinceMs`: monitors that it has not shown were deleted elsewhere, and
   * states that no object stands for are forgotten.
   */
  forgetUnlisted(listed: ReadonlySet<string>, sinceMs: number): void {
    const { monitors, statusCache } = this.#context;
    statusCache.retain((projectId, monitorId) => this.#objectsOf(projectId, monitorId).length > 0);
    for (const object of monitors.values()) {
      const { projectId, monitorId } = object.status ?? {};
      if (projectId === undefined || monitorId === undefined || listed.has(`${projectId}/${monitorId}`))
        continue;
      const live = statusCache.get(projectId, monitorId);
      if (live === undefined || live.atMs > sinceMs) continue;
      statusCache.delete(projectId, monitorId);
      this.#queues.monitor(objectKey(object));
    }
  }

  /** The API answers again: what waits for it need not wait for its turn. */
  apiRecovered(wasForbidden: boolean): void {
    const { monitors, callbacks, monitorMemories, callbackMemories } = this.#context;
    if (wasForbidden) {
      for (const memories of [monitorMemories, callbackMemories])
        memories.forgetRefusals('service.permission_denied');
    }
    const isUnsynced = ({ status }: MonitorObject | CallbackObject) =>
      findCondition(status?.conditions, 'Synced')?.status !== 'True';
    this.#enqueueAll(this.#queues.callback, [...callbacks.values()].filter(isUnsynced));
    this.#enqueueAll(this.#queues.monitor, [...monitors.values()].filter(isUnsynced));
  }

  #hear(item: StatusFeedItem, atMs: number): MonitorObject[] {
    const { projectId, monitorId, lifecycle, configurationVersion, status } = item;
    const objects = this.#objectsOf(projectId, monitorId);
    if (objects.length > 0) {
      const live = { lifecycle, configurationVersion, status, atMs };
      this.#context.statusCache.put(projectId, monitorId, live);
    }
    return objects;
  }

  /** Those that stand for the monitor, or may: before the first status an object's project is not known. */
  #objectsOf(projectId: string, monitorId: string): MonitorObject[] {
    return this.#context.monitors
      .listBy('id', monitorId)
      .filter((object) => object.status?.projectId === undefined || object.status.projectId === projectId);
  }

  #enqueueAll(enqueue: Enqueue, objects: readonly KubeObject[]): void {
    for (const object of objects) enqueue(objectKey(object));
  }
}

/** It asks to be the organization's default, or was that when it was last looked at. */
function concernsDefault({ spec, status }: CallbackObject): boolean {
  return spec.organizationDefault === true || status?.isOrganizationDefault === true;
}

function isSameAsking(before: CallbackObject | undefined, after: CallbackObject): boolean {
  return (before?.spec.organizationDefault ?? false) === (after.spec.organizationDefault ?? false);
}
