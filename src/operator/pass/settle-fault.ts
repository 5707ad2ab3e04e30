// What becomes of a pass over an object that ended in a fault: condition, Event, when to look again.

import { type ApiProblem, classify, isProblem } from '../../client/api-problem.ts';
import { type ConditionFacts, findCondition, type KubeCondition } from '../../kube/conditions.ts';
import type { ReconcileResult } from '../../kube/controller.ts';
import { isConflict, isForbidden, isInvalid, type KubeError } from '../../kube/kube-error.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import { type Fault, syncedCondition } from '../kinds/monitor/monitor-conditions.ts';
import type { ObjectMemory } from '../known/object-memory.ts';
import { type OperatorContext, recordWarning } from '../operator-context.ts';
import { Blocked } from './blocked.ts';

/** How a kind shows a fault. */
export interface FaultDisplay {
  projectId: string | undefined;
  resyncMs: number;
  /** Writes the status with these conditions; `isObserved`: the generation is dealt with. */
  show(conditions: readonly ConditionFacts[], isObserved: boolean): Promise<void>;
  /** A refusal in words, without what is secret, and its reason. */
  explain(problem: ApiProblem): Fault;
}

export interface FaultedPass extends FaultDisplay {
  object: KubeObject & { status?: { conditions?: KubeCondition[] } };
  memory: ObjectMemory;
  /** What the API was asked for: what a refusal is about. */
  desiredHash: string | undefined;
}

export interface Failure {
  error: unknown;
  /** In a row, before this one. */
  failures: number;
}

/** After a conflict: soon, as the next read shows what the other one did. */
const CONFLICT_RETRY_MS = 200;
/** What a plan does not allow is asked for again after this. */
const LIMIT_RETRY_MS = 600_000;
/** A passing fault shows in the status from the third failure on; at once where the object was never synced. */
const FAILURES_TO_SHOW = 2;

/** Rethrows what the controller is to retry with backoff. */
export async function settleFault(
  context: OperatorContext,
  pass: FaultedPass,
  { error, failures }: Failure,
): Promise<ReconcileResult> {
  if (error instanceof Blocked) return await block(context, pass, error);
  if (isInvalid(error) || isForbidden(error)) await showRefusedByCluster(context, pass, error);
  if (!isProblem(error)) throw error;
  const kind = classify(error);
  if (kind === 'conflict') return { requeueAfterMs: CONFLICT_RETRY_MS * (1 + Math.random()) };
  if (kind === 'gone' && pass.projectId !== undefined) context.projects.forget(pass.projectId);
  if (kind === 'permanent') {
    const isDeleting = pass.object.metadata.deletionTimestamp !== undefined;
    if (!isDeleting) return await refuse(context, pass, error);
    // What is deleted must go: it is tried again, and can be forced.
    recordWarning(context, pass.object, 'Refused', pass.explain(error).message);
  }
  const isSynced = findCondition(pass.object.status?.conditions, 'Synced')?.status === 'True';
  if (failures >= FAILURES_TO_SHOW || !isSynced) await showUnsynced(pass, error);
  throw error;
}

async function block(
  context: OperatorContext,
  pass: FaultedPass,
  blocked: Blocked,
): Promise<ReconcileResult> {
  const { reason, message, retryMs } = blocked;
  const isNews = findCondition(pass.object.status?.conditions, 'Ready')?.reason !== reason;
  const isConflicting = reason === 'Conflict' || reason === 'SecretConflict';
  if (isNews) recordWarning(context, pass.object, isConflicting ? 'Conflict' : 'Refused', message);
  await pass.show(faultConditions({ reason, message }), true);
  return { requeueAfterMs: retryMs };
}

/** The API would say the same again: it is not asked until the object wants something else, or the refusal has aged. */
async function refuse(
  context: OperatorContext,
  pass: FaultedPass,
  problem: ApiProblem,
): Promise<ReconcileResult> {
  const fault = pass.explain(problem);
  // What a plan refuses may be granted without a word: another monitor was deleted, or the plan is another one.
  const untilMs = problem.limit ? performance.now() + LIMIT_RETRY_MS : Number.POSITIVE_INFINITY;
  if (pass.desiredHash !== undefined)
    pass.memory.refusal = { desiredHash: pass.desiredHash, code: problem.code, fault, untilMs };
  recordWarning(context, pass.object, 'Refused', fault.message);
  await pass.show(faultConditions(fault), true);
  return { requeueAfterMs: pass.resyncMs };
}

/**
 * A Secret that the cluster does not take or show: a quota, a name that is too long, a webhook, a right that is missing.
 * It is tried again with backoff, as nothing tells when the cause is over.
 */
async function showRefusedByCluster(
  context: OperatorContext,
  pass: FaultedPass,
  { message }: KubeError,
): Promise<void> {
  const fault = { reason: 'Refused', message: `Kubernetes refused a call of the operator: ${message}` };
  recordWarning(context, pass.object, 'Refused', fault.message);
  if (pass.object.metadata.deletionTimestamp !== undefined) return;
  // Where the status is what was refused, the Event has to do.
  await pass.show(faultConditions(fault), true).catch(() => undefined);
}

/** Not synced and not ready, for one reason. */
export function faultConditions(fault: Fault): ConditionFacts[] {
  return [syncedCondition(fault), { type: 'Ready', status: 'False', ...fault }];
}

/** `Ready` keeps its last value: what is at the API goes on without us. */
async function showUnsynced(pass: FaultedPass, problem: ApiProblem): Promise<void> {
  const reason = classify(problem) === 'unauthorized' ? 'Unauthorized' : 'ApiUnavailable';
  const fault = { reason, message: pass.explain(problem).message };
  const isKnown = findCondition(pass.object.status?.conditions, 'Ready') !== undefined;
  const ready: ConditionFacts[] = isKnown ? [] : [{ type: 'Ready', status: 'Unknown', ...fault }];
  try {
    await pass.show([syncedCondition(fault), ...ready], false);
  } catch (error) {
    // The problem itself is what is retried.
    if (!isConflict(error)) throw error;
  }
}
