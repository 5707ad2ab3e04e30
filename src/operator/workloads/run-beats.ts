// The beats of a Job, with their keys and words. Pure.
import { type FailedContainer, type JobEnd, type JobView, lastFailureOf, podReasonOf } from './job-state.ts';

export interface RunBeat {
  /** The same for each attempt to send it: it counts once. */
  idempotencyKey: string;
  body: {
    status: 'start' | 'success' | 'fail' | 'cancel';
    runId: string;
    observedAt: string;
    exitStatus?: number;
    message: string;
  };
  /** Whose log says why. */
  failed?: FailedContainer;
  /** An operator that died before the status had it may have told this in other words. */
  told?: ToldBefore;
}

/** Observations of which one says the same as a beat. */
export interface ToldBefore {
  /** They came no earlier, by the clock of the cluster. */
  since: string;
  kinds: readonly string[];
  runId?: string;
  /** Those of what was before it say something else. */
  observedFrom?: string;
  observedAt?: string;
}

export function beatOf(idempotencyKey: string, body: RunBeat['body'], failed?: FailedContainer): RunBeat {
  return { idempotencyKey, body, ...(failed === undefined ? {} : { failed }) };
}

export function endBeat({ job, pods }: JobView, end: JobEnd): RunBeat {
  const { uid = '', name } = job.metadata;
  const { at: observedAt } = end;
  if (end.isSuccess) {
    const message = `Job ${name} completed.`;
    return beatOf(`${uid}-success`, { status: 'success', runId: uid, observedAt, message });
  }
  const failed = lastFailureOf(pods);
  const message = failureText(name, end, { failed, podReason: podReasonOf(pods) });
  // Windows has greater ones.
  const isStatus = failed !== undefined && failed.exitCode > 0 && failed.exitCode <= 255;
  const exitStatus = isStatus ? failed.exitCode : undefined;
  const body = { status: 'fail' as const, runId: uid, observedAt, message };
  return beatOf(`${uid}-fail`, exitStatus === undefined ? body : { ...body, exitStatus }, failed);
}

/** `Job backup-1 failed: BackoffLimitExceeded. Container main of pod backup-1-x: OOMKilled, exit code 137.` */
function failureText(
  name: string,
  { reason, message }: JobEnd,
  { failed, podReason }: { failed: FailedContainer | undefined; podReason: string | undefined },
): string {
  const why = reason === '' ? message : reason;
  const words = [`Job ${name} failed${why === '' ? '' : `: ${why}`}.`];
  // A pod-failure policy says in its message which rule it was.
  if (reason === 'PodFailurePolicy' && message !== '') words.push(message.replace(/\.?$/, '.'));
  if (podReason !== undefined && podReason !== reason) words.push(`Pod: ${podReason}.`);
  if (failed !== undefined) {
    const code = `exit code ${failed.exitCode}`;
    const said =
      failed.reason === undefined || failed.reason === 'Error' ? code : `${failed.reason}, ${code}`;
    words.push(`Container ${failed.container} of pod ${failed.pod}: ${said}.`);
  }
  return words.join(' ').slice(0, 1024);
}

export function deletion({ job: { metadata } }: JobView, observedAt: string): RunBeat {
  const { uid = '', name } = metadata;
  const message = `Job ${name} was deleted while it ran.`;
  return beatOf(`${uid}-cancel`, { status: 'cancel', runId: uid, observedAt, message });
}
