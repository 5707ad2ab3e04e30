// Whether a Monitor can get anything from a Rule, as its own conditions say. Pure.
import { findCondition } from '../../../kube/conditions.ts';
import type { MonitorObject } from '../monitor/monitor-object.ts';

/** Reasons of `Synced` that end without a change of the Monitor. */
const PASSING = new Set(['Pending', 'ApiUnavailable', 'Unauthorized', 'NotInstalled']);

/** Why the Monitor is not synced, and will not be without a change; a sentence. Undefined: it is, or will be. */
export function unsyncedFault({ status }: MonitorObject): string | undefined {
  const synced = findCondition(status?.conditions, 'Synced');
  if (synced?.status !== 'False' || PASSING.has(synced.reason)) return undefined;
  return `The Monitor is not synced (${synced.reason}).`;
}
