// The Monitors that stand for a monitor whose status is known, for the metrics of monitors. What the status of an object
// says does not count: its monitor is the one that a pass gave to it.
import type { MonitorStatus } from '../../../contract/resources/monitor.ts';
import type { KubeObject } from '../../../kube/kube-object.ts';
import type { MonitorStatusCache } from '../../known/monitor-status-cache.ts';
import type { ObjectMemory } from '../../known/object-cache.ts';
import { idOf } from '../../pass/identity.ts';
import { MONITOR_IDENTITY, type MonitorObject } from './monitor-object.ts';

export interface FollowedMonitor {
  namespace: string;
  name: string;
  /** Creation time and UID: sorts objects by age. */
  age: string;
  status: MonitorStatus;
}

export interface FollowedSources {
  objects: Iterable<KubeObject>;
  memoryOf(object: KubeObject): Readonly<ObjectMemory>;
  statusCache: MonitorStatusCache;
}

export function listFollowedMonitors({ objects, memoryOf, statusCache }: FollowedSources): FollowedMonitor[] {
  const followed = new Map<string, FollowedMonitor & { heldAtMs: number }>();
  for (const object of objects as Iterable<MonitorObject>) {
    const { held } = memoryOf(object);
    if (held === undefined || held.id !== idOf(MONITOR_IDENTITY, object)) continue;
    const status = statusCache.get(held.projectId, held.id)?.status;
    if (status === undefined) continue;
    const key = `${held.projectId}/${held.id}`;
    // Of several objects that had the monitor, one has it now.
    const other = followed.get(key);
    if (other !== undefined && other.heldAtMs > held.atMs) continue;
    const { namespace = '', name, creationTimestamp = '', uid = '' } = object.metadata;
    const age = `${creationTimestamp} ${uid}`;
    followed.set(key, { namespace, name, age, status, heldAtMs: held.atMs });
  }
  return [...followed.values()];
}
