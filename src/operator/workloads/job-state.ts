// What a Job and its pods say about one run: whether it has ended, when it began, why it failed. Level-based: it reads what
// is there, whatever happened on the way. Pure.
import type { ContainerState, ContainerStatus, JobObject, PodObject } from './batch-objects.ts';

/** A Job with the pods that are left of it, also those that are gone since. */
export interface JobView {
  job: JobObject;
  pods: readonly PodObject[];
  /** The Job is deleted, and this was its last state. */
  isGone: boolean;
}

export interface JobEnd {
  isSuccess: boolean;
  /** RFC 3339. */
  at: string;
  reason: string;
  message: string;
}

/** A container that ended with an error. */
export interface FailedContainer {
  pod: string;
  container: string;
  reason: string | undefined;
  exitCode: number;
  /** The container runs again since: its log is that of the run before. */
  isRestarted: boolean;
}

/** The terminal condition, by its type: `SuccessCriteriaMet` and `FailureTarget` come before it, and may be anywhere. */
export function endOf({ metadata, status }: JobObject): JobEnd | undefined {
  const found = (type: string) =>
    status?.conditions?.find((condition) => condition.type === type && condition.status === 'True');
  const complete = found('Complete');
  const end = complete ?? found('Failed');
  if (end === undefined) return undefined;
  const { reason = '', message = '', lastTransitionTime } = end;
  const completedAt = complete === undefined ? undefined : status?.completionTime;
  const at = completedAt ?? lastTransitionTime ?? metadata.creationTimestamp ?? '';
  return { isSuccess: complete !== undefined, at, reason, message };
}

/** Also while its controller has not taken note that it goes on: until then the start time is that of before. */
export function isSuspendedNow({ spec, status }: JobObject): boolean {
  const suspended = status?.conditions?.find(({ type }) => type === 'Suspended');
  return spec.suspend === true || suspended?.status === 'True';
}

/**
 * When the first container of the Job began to run, RFC 3339. `after`: pods of an earlier time do not count. Undefined: none
 * has run, as far as is known.
 */
export function firstStartOf(pods: readonly PodObject[], after = ''): string | undefined {
  const starts = pods.flatMap(({ status }) => (status?.containerStatuses ?? []).flatMap(startsOf));
  return starts.filter((at) => isAtOrAfter(at, after)).sort(byTime)[0];
}

function startsOf({ state, lastState }: ContainerStatus): string[] {
  return [state, lastState].flatMap((one) => startOf(one) ?? []);
}

function startOf(state: ContainerState | undefined): string | undefined {
  return state?.running?.startedAt ?? state?.terminated?.startedAt ?? undefined;
}

/**
 * Why the pod failed that failed last: the first of its containers that did, since what is beside it is killed after it. An init
 * container counts where no other one failed: some run beside the others, too.
 */
export function lastFailureOf(pods: readonly PodObject[]): FailedContainer | undefined {
  const failures = pods.flatMap(({ metadata, status }) => {
    const own = (status?.containerStatuses ?? []).flatMap(failureOf);
    const all = own.length > 0 ? own : (status?.initContainerStatuses ?? []).flatMap(failureOf);
    const first = all.toSorted((a, b) => byTime(a.finishedAt, b.finishedAt))[0];
    return first === undefined ? [] : [{ pod: metadata.name, ...first }];
  });
  return failures.sort((a, b) => byTime(a.finishedAt, b.finishedAt)).at(-1);
}

type Failure = Omit<FailedContainer, 'pod'> & { finishedAt: string };

/** Of a container that runs again, that of the run before. */
function failureOf({ name: container, state, lastState }: ContainerStatus): Failure[] {
  for (const one of [state, lastState]) {
    const ended = one?.terminated;
    if (ended === undefined || ended.exitCode === 0) continue;
    const { exitCode, reason, finishedAt = '' } = ended;
    return [{ container, reason, exitCode, isRestarted: one === lastState, finishedAt }];
  }
  return [];
}

/** Why a pod ended that is no container's fault: `Evicted`, `DeadlineExceeded`. */
export function podReasonOf(pods: readonly PodObject[]): string | undefined {
  return pods.map(({ status }) => status?.reason).findLast((reason) => reason !== undefined);
}

/** A pod that waits for one of these does not get on by itself. `ErrImagePull` comes before, and may pass. */
const BLOCKING: readonly string[] = ['ImagePullBackOff', 'InvalidImageName', 'CreateContainerConfigError'];

/** What keeps the containers of a Job from starting. */
export function blockOf(
  pods: readonly PodObject[],
): { pod: string; container: string; reason: string } | undefined {
  for (const { metadata, status } of pods) {
    if (metadata.deletionTimestamp !== undefined) continue;
    for (const { name, state } of [
      ...(status?.initContainerStatuses ?? []),
      ...(status?.containerStatuses ?? []),
    ]) {
      const reason = state?.waiting?.reason ?? '';
      if (BLOCKING.includes(reason)) return { pod: metadata.name, container: name, reason };
    }
  }
  return undefined;
}

export function isAtOrAfter(at: string, other: string): boolean {
  return other === '' || Date.parse(at) >= Date.parse(other);
}

/** Earliest first. A time that cannot be read is the earliest. */
export function byTime(a: string, b: string): number {
  return (Date.parse(a) || 0) - (Date.parse(b) || 0);
}
