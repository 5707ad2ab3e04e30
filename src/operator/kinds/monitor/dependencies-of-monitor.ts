// The Monitors that a Monitor names in `dependsOn`, as ids of the API (docs/contract/kubernetes.md, "Dependencies"). Pure.
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import { idOf } from '../../pass/identity.ts';
import { MONITOR_IDENTITY, type MonitorObject } from './monitor-object.ts';

export interface WantedDependencies {
  /** Of those that have a monitor at the API; undefined where the spec names none. */
  ids: readonly string[] | undefined;
  /** Why the others have none: a sentence for each. */
  faults: readonly string[];
}

/** The index `dependsOn` of the cache: the Monitors that name a Monitor, by its key. */
export function dependencyKeys({ metadata, spec }: MonitorObject): string[] {
  return (spec.dependsOn ?? []).map(({ name }) => `${metadata.namespace}/${name}`);
}

/** `find`: a Monitor of the namespace by its key. */
export function wantedDependencies(
  object: MonitorObject,
  projectId: string,
  find: ObjectCache<MonitorObject>['get'],
): WantedDependencies {
  const { metadata, spec } = object;
  if (spec.dependsOn === undefined) return { ids: undefined, faults: [] };
  const ids: string[] = [];
  const faults: string[] = [];
  for (const { name } of spec.dependsOn) {
    const found = find(`${metadata.namespace}/${name}`);
    const fault = faultOf(object, found, projectId);
    if (found && fault === undefined) ids.push(idOf(MONITOR_IDENTITY, found));
    else faults.push(`It depends on ${name}, ${fault}.`);
  }
  return { ids, faults };
}

function faultOf(
  { spec }: MonitorObject,
  found: MonitorObject | undefined,
  projectId: string,
): string | undefined {
  if (found === undefined || found.metadata.deletionTimestamp !== undefined)
    return 'and there is no Monitor of that name in this namespace: create it, or leave it out';
  if (found.spec.jurisdiction !== spec.jurisdiction) return 'which is in another jurisdiction: leave it out';
  const { monitorId, projectId: itsProject } = found.status ?? {};
  const isThere = monitorId === idOf(MONITOR_IDENTITY, found) && itsProject === projectId;
  return isThere ? undefined : 'which has no monitor yet: see its conditions';
}

/** Undefined where each has a monitor. */
export function dependencyCondition({ faults }: WantedDependencies): ConditionFacts | undefined {
  if (faults.length === 0) return undefined;
  const message = `${faults.join(' ')} The monitor is watched all the same.`;
  return { type: 'Ready', status: 'False', reason: 'DependencyNotFound', message };
}

/** What changes for those that depend on the Monitor. */
export function changesDependents(before: MonitorObject | undefined, after: MonitorObject): boolean {
  const { metadata, spec, status } = after;
  return (
    before === undefined ||
    (before.metadata.deletionTimestamp === undefined) !== (metadata.deletionTimestamp === undefined) ||
    before.spec.jurisdiction !== spec.jurisdiction ||
    before.status?.monitorId !== status?.monitorId ||
    before.status?.projectId !== status?.projectId ||
    idOf(MONITOR_IDENTITY, before) !== idOf(MONITOR_IDENTITY, after)
  );
}
