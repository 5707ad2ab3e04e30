// Before the API is told anything, the status says which fields an object sets: a crash after the change must not
// forget that they were ours.
import { applyStatus } from '../../kube/apply-status.ts';
import type { ConditionFacts } from '../../kube/conditions.ts';
import type { KubeResource } from '../../kube/kube-object.ts';
import { pendingCondition } from '../kinds/monitor/monitor-conditions.ts';
import { unitedFields } from '../kinds/monitor/owned-fields.ts';
import type { OperatorContext } from '../operator-context.ts';
import { FIELD_MANAGER } from '../resources/names.ts';
import type { ObjectPass, ReconciledObject } from './reconcile-object.ts';

export interface Announcement<T extends ReconciledObject> {
  resource: KubeResource<T>;
  projectId: string;
  /** Set by the spec as it is now. Those of the status stay until what they set is given back. */
  ownedFields: readonly string[];
  /** The kind's status. */
  statusOf(facts: {
    object: T;
    nowMs: number;
    fields: { ownedFields: string[]; projectId: string };
    conditions: readonly ConditionFacts[];
    isObserved: boolean;
  }): object;
}

/** Writes nothing where the status says so already. Throws KubeError. */
export async function announceFields<T extends ReconciledObject>(
  { kube }: OperatorContext,
  pass: ObjectPass<T>,
  { resource, projectId, ownedFields, statusOf }: Announcement<T>,
): Promise<void> {
  const { object, signal } = pass;
  const before = object.status?.ownedFields;
  const united = unitedFields(before, ownedFields);
  const isKnown = object.status?.projectId === projectId && before !== undefined;
  if (isKnown && united.length === before.length) return;
  const isNew = object.status?.conditions === undefined;
  const status = statusOf({
    object,
    nowMs: Date.now(),
    fields: { ownedFields: united, projectId },
    conditions: isNew ? [pendingCondition('Synced'), pendingCondition('Ready')] : [],
    isObserved: false,
  });
  const apply = { object, status, fieldManager: FIELD_MANAGER, signal };
  pass.object = (await applyStatus(kube, resource, apply)) ?? object;
}
