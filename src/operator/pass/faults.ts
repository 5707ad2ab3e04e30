// What a failed pass leads to: condition, Event, and when to try again.
import { type ApiProblem, classify, isProblem } from '../../client/api-problem.ts';
import { jitterMs } from '../../kube/backoff.ts';
import { type ConditionFacts, findCondition } from '../../kube/conditions.ts';
import type { ReconcileResult } from '../../kube/controller.ts';
import { isConflict, isForbidden, isInvalid, type KubeError } from '../../kube/kube-error.ts';
import type { OperatorContext } from '../operator-context.ts';
import { ANNOTATION } from '../resources/names.ts';
import { mayEndByItself } from '../resources/remedies.ts';
import type { Pass } from './kind.ts';
import { Blocked, type Fault } from './object.ts';
import type { ObjectEvents } from './object-events.ts';
import { faultConditions, syncedCondition } from './status.ts';

/** How a fault of one object is shown. */
export interface FaultDisplay {
  resyncMs: number;
  events: ObjectEvents;
  /** Writes the status with these conditions; `isObserved`: the generation is reconciled. */
  show(conditions: readonly ConditionFacts[], isObserved: boolean): Promise<unknown>;
  /** The reason and the words of a refusal, without secrets. */
  explain(problem: ApiProblem): Fault;
}

export interface Failure {
  error: unknown;
  /** Consecutive failures before this one. */
  failures: number;
}

/** After a conflict: soon, because the next read shows the other change. */
const CONFLICT_RETRY_MS = 200;
/** A passing fault shows in the status from the third failure on, or at once if the object is not synced. */
const FAILURES_TO_SHOW = 2;

/** Rethrows what the controller has to retry with backoff. */
export async function settleFault(
  { projects, settings }: OperatorContext,
  pass: Pass,
  display: FaultDisplay,
  { error, failures }: Failure,
): Promise<ReconcileResult> {
  if (error instanceof Blocked) return await block(pass, display, error);
  if (isInvalid(error) || isForbidden(error)) await showRefusedByCluster(pass, display, error);
  if (!isProblem(error)) throw error;
  const kind = classify(error);
  if (kind === 'conflict') return { requeueAfterMs: CONFLICT_RETRY_MS * (1 + Math.random()) };
  const projectId = pass.desired?.projectId;
  if (kind === 'gone' && projectId !== undefined) projects.forget(projectId);
  if (kind === 'permanent') {
    const isDeleting = pass.object.metadata.deletionTimestamp !== undefined;
    if (!isDeleting) return await refuse(pass, display, error, settings.refusalRetryMs);
    // A deleted object must go: the pass is retried, and force-delete can end it.
    display.events.record(pass.object, 'Refused', display.explain(error).message);
  }
  const isSynced = findCondition(pass.object.status?.conditions, 'Synced')?.status === 'True';
  if (failures >= FAILURES_TO_SHOW || !isSynced) await showUnsynced(pass, display, error);
  throw error;
}

async function block(pass: Pass, display: FaultDisplay, blocked: Blocked): Promise<ReconcileResult> {
  const { reason, message, retryMs } = blocked;
  const isNews = findCondition(pass.object.status?.conditions, 'Ready')?.reason !== reason;
  const isConflicting = reason === 'Conflict' || reason === 'SecretConflict';
  if (isNews) display.events.record(pass.object, isConflicting ? 'Conflict' : 'Refused', message);
  await display.show(faultConditions({ reason, message }), true);
  return { requeueAfterMs: retryMs };
}

/** The API would refuse again: it is not called until the desired state changes or the refusal expires. */
async function refuse(
  pass: Pass,
  display: FaultDisplay,
  problem: ApiProblem,
  retryMs: number,
): Promise<ReconcileResult> {
  const { memory, desiredHash } = pass;
  const fault = display.explain(problem);
  // The API may allow it later without notice: a value of the chart was changed, or another monitor was deleted.
  const waitMs = mayEndByItself(problem) ? jitterMs(retryMs) : Number.POSITIVE_INFINITY;
  const untilMs = performance.now() + waitMs;
  memory.refusal = { desiredHash, code: problem.code, fault, untilMs };
  display.events.record(pass.object, 'Refused', fault.message);
  await display.show(faultConditions(fault), true);
  // What the API was asked for on the way to the desired state, such as the project, would be asked at each resync.
  return { requeueAfterMs: desiredHash === undefined ? jitterMs(retryMs) : display.resyncMs };
}

/**
 * The cluster refuses to store or to show a Secret: a quota, a name that is too long, a webhook, a missing right. The
 * pass is retried with backoff, because nothing announces the end of the cause. A deleted object says what lets it go.
 */
async function showRefusedByCluster(
  { object }: Pass,
  { events, show }: FaultDisplay,
  { message }: KubeError,
): Promise<void> {
  const fault = { reason: 'Refused', message: `Kubernetes refused a call of the operator: ${message}` };
  events.record(object, 'Refused', fault.message);
  const { deletionTimestamp: leavingSince } = object.metadata;
  const shown =
    leavingSince === undefined
      ? show(faultConditions(fault), true)
      : show(
          [syncedCondition({ ...fault, message: `${fault.message} ${wayOut('cluster', leavingSince)}` })],
          false,
        );
  // If the cluster refuses the status too, the Event is all that users see.
  await shown.catch(() => undefined);
}

/** `Ready` keeps its last value: the external resource works without the operator. */
async function showUnsynced({ object }: Pass, display: FaultDisplay, problem: ApiProblem): Promise<void> {
  const { deletionTimestamp: leavingSince } = object.metadata;
  const hint = leavingSince === undefined ? '' : ` ${wayOut('API', leavingSince)}`;
  const fault = { reason: unsyncedReason(problem), message: `${display.explain(problem).message}${hint}` };
  const isKnown = (findCondition(object.status?.conditions, 'Ready')?.status ?? 'Unknown') !== 'Unknown';
  const ready: ConditionFacts[] = isKnown ? [] : [{ type: 'Ready', status: 'Unknown', ...fault }];
  try {
    await display.show([syncedCondition(fault), ...ready], false);
  } catch (error) {
    // The caller retries because of the problem itself.
    if (!isConflict(error)) throw error;
  }
}

function wayOut(what: 'API' | 'cluster', since: string): string {
  const end = what === 'API' ? 'the API is gone for good' : 'that stays so';
  return `The deletion waits for the ${what} since ${since}. If ${end}, set the annotation ${ANNOTATION.forceDelete}: "true": then the object goes without it.`;
}

function unsyncedReason(problem: ApiProblem): string {
  const kind = classify(problem);
  if (kind === 'permanent') return 'Refused';
  return kind === 'unauthorized' ? 'Unauthorized' : 'ApiUnavailable';
}
