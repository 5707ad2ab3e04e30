// The Monitors that a Monitor names in `dependsOn`, as ids of the API (docs/contract/kubernetes.md, "Dependencies"). Pure.
import { isDeepStrictEqual } from 'node:util';
import { type ConditionFacts, findCondition } from '../../../kube/conditions.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import { idOf } from '../../pass/identity.ts';
import { MONITOR_IDENTITY, type MonitorObject } from './monitor-object.ts';

export interface WantedDependencies {
  /** Of those that have a monitor at the API; undefined where the spec names none. */
  ids: readonly string[] | undefined;
  /** Why the others have none: a sentence for each. */
  faults: readonly string[];
  /** One of them will have a monitor soon, so that none is taken away yet. */
  isWaiting: boolean;
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
  if (spec.dependsOn === undefined) return { ids: undefined, faults: [], isWaiting: false };
  const ids: string[] = [];
  const faults: string[] = [];
  let isWaiting = false;
  for (const { name } of spec.dependsOn) {
    const found = find(`${metadata.namespace}/${name}`);
    const fault = faultOf(object, found);
    const isThere = found !== undefined && isMade(found, projectId);
    if (found && fault === undefined && isThere) ids.push(idOf(MONITOR_IDENTITY, found));
    else faults.push(`It depends on ${name}, ${fault ?? 'which has no monitor yet: see its conditions'}.`);
    isWaiting ||= fault === undefined && !isThere;
  }
  return { ids, faults, isWaiting };
}

function faultOf({ metadata, spec }: MonitorObject, found: MonitorObject | undefined): string | undefined {
  if (found?.metadata.name === metadata.name) return 'which is itself: leave it out';
  if (found === undefined || found.metadata.deletionTimestamp !== undefined)
    return 'and there is no Monitor of that name in this namespace: create it, or leave it out';
  const isElsewhere = found.spec.jurisdiction !== spec.jurisdiction;
  return isElsewhere ? 'which is in another jurisdiction: leave it out' : undefined;
}

function isMade(found: MonitorObject, projectId: string): boolean {
  const { monitorId, projectId: itsProject } = found.status ?? {};
  return monitorId === idOf(MONITOR_IDENTITY, found) && itsProject === projectId;
}

export const DEPENDENCY_REFUSED = 'DependencyRefused';

/** `refused`: the words of the API. Undefined where all is as the spec says. */
export function dependencyCondition(
  { faults }: WantedDependencies,
  refused: string | undefined,
): ConditionFacts | undefined {
  if (refused === undefined && faults.length === 0) return undefined;
  const reason = refused === undefined ? 'DependencyNotFound' : DEPENDENCY_REFUSED;
  const message = `${[...(refused === undefined ? [] : [refused]), ...faults].join(' ')} The monitor is watched all the same.`;
  return { type: 'Ready', status: 'False', reason, message };
}

/** The index `dependencyRefused`: the namespaces of Monitors whose dependencies the API has refused. */
export function refusedKeys({ metadata, status }: MonitorObject): string[] {
  const isRefused = findCondition(status?.conditions, 'Ready')?.reason === DEPENDENCY_REFUSED;
  return isRefused ? [metadata.namespace ?? ''] : [];
}

/** Others may be accepted now that were refused: a circle may be open, in the spec or, a little later, at the API. */
export function changesChains(before: MonitorObject | undefined, after: MonitorObject): boolean {
  const isSame = isDeepStrictEqual(before?.spec.dependsOn, after.spec.dependsOn);
  return !isSame || before?.status?.configurationVersion !== after.status?.configurationVersion;
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
