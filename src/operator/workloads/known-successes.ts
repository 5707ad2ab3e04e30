// Which success of a workload is the newest that is known, and what it makes of failures before it. Pure.
import { byTime, endOf, isAtOrAfter } from './job-state.ts';
import { beatOf, type RunBeat } from './run-beats.ts';
import type { ReportedRuns, RunFacts } from './run-facts.ts';

/** How long the Job of a `lastSuccessfulTime` may still come: the watches of CronJobs and of Jobs do not keep in step. */
const SETTLE_MS = 60_000;

/** Of the Jobs that are there, and of what was reported. Empty: none. */
function newestOfJobs({ jobs }: RunFacts, { lastSuccessfulTime = '' }: ReportedRuns): string {
  const times = jobs.flatMap(({ job }) => {
    const end = endOf(job);
    return end?.isSuccess === true ? [end.at] : [];
  });
  return [lastSuccessfulTime, ...times].sort(byTime).at(-1) ?? '';
}

/** Also what the CronJob alone still says. Empty: none. */
export function newestSuccess(facts: RunFacts, reported: ReportedRuns): string {
  const ofJobs = newestOfJobs(facts, reported);
  const { lastSuccessfulTime = '' } = facts.cronJob?.status ?? {};
  return [ofJobs, lastSuccessfulTime].sort(byTime).at(-1) ?? '';
}

/**
 * A failure after which a run is known to have succeeded: it closes its run, and opens nothing. Its key is that of the failure,
 * which an operator may have told before it knew of the success.
 */
export function overtaken({ idempotencyKey, body }: RunBeat): RunBeat {
  const { exitStatus: _none, message, ...rest } = body;
  const words = ' A later run has succeeded since.';
  const text = `${message.slice(0, 1024 - words.length)}${words}`;
  return beatOf(idempotencyKey, { ...rest, status: 'cancel', message: text });
}

/** A success that only the CronJob still knows. */
export interface UnseenSuccess {
  at: string;
  /** Undefined: a failure after it was told already, and it would seem to have ended. */
  beat: RunBeat | undefined;
}

/**
 * A Job that completed while no operator was there, and is gone: the CronJob still says when. The beat has a run id of its
 * own, because a success without one would end each open run.
 */
export function unseenSuccess(
  facts: RunFacts,
  reported: ReportedRuns,
): { success?: UnseenSuccess; dueInMs?: number } {
  const { cronJob, jobs, nowMs } = facts;
  const at = cronJob?.status?.lastSuccessfulTime;
  if (cronJob === undefined || at === undefined) return {};
  const known = newestOfJobs(facts, reported);
  if (known !== '' && isAtOrAfter(known, at)) return {};
  if (!isAtOrAfter(at, reported.since)) return {};
  const ageMs = nowMs - Date.parse(at);
  // Nobody waits for a time that a wrong clock has written.
  if (ageMs < -SETTLE_MS) return {};
  if (ageMs < SETTLE_MS) return { dueInMs: SETTLE_MS - ageMs };
  const ended = new Set((reported.runs ?? []).filter((run) => run.ended !== undefined).map(({ uid }) => uid));
  const isOver = jobs.some(({ job }) => {
    const end = endOf(job);
    const isTold = ended.has(job.metadata.uid ?? '');
    return isTold && end?.isSuccess === false && byTime(at, end.at) < 0;
  });
  const { uid = '', name } = cronJob.metadata;
  const runId = `${uid}-${Date.parse(at) / 1000}`;
  const message = `A Job of CronJob ${name} completed. It is gone, and no operator saw it.`;
  const told = { since: at, kinds: ['success'], observedAt: at };
  const beat = { ...beatOf(`${runId}-success`, { status: 'success', runId, observedAt: at, message }), told };
  return { success: { at, beat: isOver ? undefined : beat } };
}
