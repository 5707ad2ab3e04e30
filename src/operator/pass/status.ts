// The status of an object of any kind: common fields and conditions, the write if something differs, and the
// announcement of the fields that are about to be sent to the API.
import { applyStatus, isSameStatus } from '../../kube/apply-status.ts';
import {
  type ConditionFacts,
  type ConditionMoment,
  findCondition,
  type KubeCondition,
  removeCondition,
  setCondition,
} from '../../kube/conditions.ts';
import type { OperatorContext } from '../operator-context.ts';
import { FIELD_MANAGER } from '../resources/names.ts';
import type { Desired, Kind, Pass, Work } from './kind.ts';
import type { Fault, ReconciledObject, ReconciledStatus } from './object.ts';

export function syncedCondition(fault?: Fault): ConditionFacts {
  if (fault) return { type: 'Synced', status: 'False', ...fault };
  return {
    type: 'Synced',
    status: 'True',
    reason: 'ReconcileSuccess',
    message: 'The API matches the spec.',
  };
}

/** Neither synced nor ready, for one reason. */
export function faultConditions(fault: Fault): ConditionFacts[] {
  return [syncedCondition(fault), { type: 'Ready', status: 'False', ...fault }];
}

/** Reasons of `Ready` that end without a person: another object may be on its way, from the same tool, or work is under way. */
const WAITING = new Set([
  'CallbackNotFound',
  'CallbackUnknown',
  'NoOrganizationDefault',
  'SecretNotFound',
  'MonitorNotFound',
]);

/** `Stalled` is there while only a person can help; tools take its absence for progress. */
export function withStalled(
  conditions: readonly KubeCondition[],
  ready: ConditionFacts | undefined,
  moment: ConditionMoment,
): KubeCondition[] {
  if (ready === undefined) return [...conditions];
  const isStalled = ready.status === 'False' && !WAITING.has(ready.reason);
  if (!isStalled) return removeCondition(conditions, 'Stalled');
  return setCondition(conditions, { ...ready, type: 'Stalled', status: 'True' }, moment);
}

/** What nobody knows yet, because a fault keeps the object from being reconciled, is unknown for the reason of that fault. */
function unknownBy(kept: readonly KubeCondition[], given: readonly ConditionFacts[]): ConditionFacts[] {
  const fault = given.find(({ type, status }) => type === 'Synced' && status === 'False');
  if (fault === undefined) return [];
  const reasons = ['Pending', findCondition(kept, 'Synced')?.reason];
  return kept
    .filter(({ type, status, reason }) => {
      const isGiven = given.some((one) => one.type === type);
      return type !== 'Ready' && !isGiven && status === 'Unknown' && reasons.includes(reason);
    })
    .map(({ type }) => ({ ...fault, type, status: 'Unknown' }));
}

export interface StatusFacts {
  /** These conditions are replaced; the kind adds its own. */
  conditions: readonly ConditionFacts[];
  /** False: this generation is not reconciled yet. */
  isObserved: boolean;
}

/** The whole status from what a pass has found out; everything else stays. Pure. */
export function statusOf<O extends ReconciledObject, D extends Desired, E>(
  kind: Pick<Kind<O, D, E>, 'statusOf'>,
  pass: Pass<O, D, E>,
  { conditions, isObserved, nowMs }: StatusFacts & { nowMs: number },
): ReconciledStatus {
  const { metadata, status: previous = {} } = pass.object;
  const own = kind.statusOf(pass);
  const moment = { generation: metadata.generation, nowMs };
  const kept = (own.removed ?? []).reduce(removeCondition, previous.conditions ?? []);
  const given = [...conditions, ...own.conditions];
  const found = [...given, ...unknownBy(kept, given)];
  const all = found.reduce((some, one) => setCondition(some, one, moment), kept);
  const ready = found.find(({ type }) => type === 'Ready');
  return {
    ...previous,
    ...pass.fields,
    observedGeneration: isObserved ? metadata.generation : previous.observedGeneration,
    ...own.fields,
    conditions: withStalled(all, ready, moment),
  };
}

/** Returns in how many ms a status that was held back may be written; Infinity if none was. Throws ApiProblem, KubeError. */
export async function writeStatus<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
  facts: StatusFacts,
): Promise<number> {
  const { object, signal } = pass;
  const status = statusOf(kind, pass, { ...facts, nowMs: Date.now() });
  if (isSameStatus(object.status, status)) return Number.POSITIVE_INFINITY;
  const waitMs = kind.holdBack?.(pass, status) ?? 0;
  if (waitMs > 0) return waitMs;
  const apply = { object, status, fieldManager: FIELD_MANAGER, signal };
  pass.object = (await applyStatus(context.kube, kind.resource, apply)) ?? object;
  context.metrics.statusWrites.inc({ kind: kind.resource.kind });
  kind.statusWritten?.(pass, object.status);
  return Number.POSITIVE_INFINITY;
}

/**
 * Writes the fields that the object sets into its status before the API is changed: after a crash, the next pass must
 * know that it owns them. Fields that the object set before stay listed until they are released. Writes nothing if the
 * status lists them already. Throws KubeError.
 */
export async function announceFields<O extends ReconciledObject, D extends Desired, E>(
  { kube }: OperatorContext,
  { resource, initialConditions }: Kind<O, D, E>,
  pass: Work<O, D, E>,
): Promise<void> {
  const { object, signal, desired } = pass;
  const { projectId } = desired;
  const { status: previous = {} } = object;
  const before = previous.ownedFields;
  const ownedFields = [...new Set([...(before ?? []), ...desired.ownedFields])].sort();
  if (previous.projectId === projectId && ownedFields.length === before?.length) return;
  const { conditions = [...initialConditions] } = previous;
  const status = { ...previous, ownedFields, projectId, conditions };
  const apply = { object, status, fieldManager: FIELD_MANAGER, signal };
  pass.object = (await applyStatus(kube, resource, apply)) ?? object;
}

/** The fields that were owned before and are not now. */
export function releasedFields(before: readonly string[] | undefined, now: readonly string[]): Set<string> {
  const kept = new Set(now);
  return new Set((before ?? []).filter((field) => !kept.has(field)));
}
