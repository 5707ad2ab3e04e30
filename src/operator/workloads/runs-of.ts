// Which beats the Jobs of a workload ask for, beside those that were reported, and what is reported then. Level-based: any
// event may be lost, and the operator may have been away (docs/contract/kubernetes.md, "Workloads"). Pure.
import { MAX_REPORTED_RUNS } from '../../contract/crd/monitor-resource.ts';
import { formatSeconds } from '../../kube/kube-object.ts';
import {
  blockOf,
  byTime,
  endOf,
  firstStartOf,
  isAtOrAfter,
  isSuspendedNow,
  type JobEnd,
  type JobView,
} from './job-state.ts';
import { newestSuccess, overtaken, unseenSuccess } from './known-successes.ts';
import { beatOf, deletion, endBeat, type RunBeat } from './run-beats.ts';
import type { ReportedRuns, RunFacts, RunRecord } from './run-facts.ts';

/** A beat, and what is reported once it is sent. */
export interface RunStep {
  beat: RunBeat;
  after: ReportedRuns;
}

export interface RunPlan {
  /** In this order. */
  steps: RunStep[];
  /** What is reported once all of them are sent. */
  final: ReportedRuns;
  /** When to look again although nothing changes; undefined: not at all. */
  dueInMs?: number;
}

/** A pass sends no more beats, so that no workload holds up the others. */
const MOST_STEPS = 100;
/** Of the runs that are remembered, so many may be open: the others have ended, and their Jobs are there. */
const MOST_OPEN = MAX_REPORTED_RUNS - 10;

export function runsOf(facts: RunFacts): RunPlan {
  const { jobs, nowMs } = facts;
  const reported = begun(facts);
  const succeededAt = newestSuccess(facts, reported);
  const wanted: Wanted[] = jobs.flatMap((view) => beatsOf(view, { facts, reported, succeededAt }));
  const seen = new Set(jobs.map(({ job }) => job.metadata.uid));
  for (const run of reported.runs ?? []) {
    if (isOpen(run) && !seen.has(run.uid)) wanted.push(unseenEnd(run, nowMs));
  }
  const { success, dueInMs } = unseenSuccess(facts, reported);
  if (success) wanted.push({ beat: success.beat, sortAt: success.at, successAt: success.at });
  // Stable: the start of a Job stays before its end.
  wanted.sort((a, b) => byTime(a.sortAt, b.sortAt));
  const steps: RunStep[] = [];
  let state = reported;
  const ending = new Set(wanted.flatMap(({ record }) => (record?.ended === undefined ? [] : [record.uid])));
  for (const { beat, record, successAt } of wanted) {
    // The next pass goes on.
    if (steps.length === MOST_STEPS) return { steps, final: pruned(state, jobs), dueInMs: 0 };
    if (record && !ending.has(record.uid) && isFull(state.runs ?? [], record)) continue;
    if (record) state = { ...state, runs: withRun(state.runs ?? [], record) };
    if (successAt !== undefined) state = { ...state, lastSuccessfulTime: later(state, successAt) };
    if (beat !== undefined) steps.push({ beat, after: pruned(state, jobs) });
  }
  const final = pruned(state, jobs);
  return { steps, final, ...(dueInMs === undefined ? {} : { dueInMs }) };
}

/** More open runs than the API keeps are not begun: each is begun, or ended alone, when others have ended. */
function isFull(runs: readonly RunRecord[], { uid }: RunRecord): boolean {
  const others = runs.filter((run) => run.uid !== uid && run.ended === undefined);
  return others.length >= MOST_OPEN && !runs.some((run) => run.uid === uid);
}

/** A CronJob that was made again under its name is another one: its Jobs count from its creation. */
function begun({ ref, cronJob, reported: before, nowMs }: RunFacts): ReportedRuns {
  const reported = ofWorkload(before, ref, nowMs);
  if (cronJob === undefined) return reported;
  const { uid = '', creationTimestamp = '' } = cronJob.metadata;
  const { lastScheduleTime = reported.lastScheduleTime } = cronJob.status ?? {};
  if (reported.uid === uid) return { ...reported, lastScheduleTime };
  const since = isAtOrAfter(reported.since, creationTimestamp) ? reported.since : creationTimestamp;
  return {
    ref,
    uid,
    since,
    lastScheduleTime: cronJob.status?.lastScheduleTime,
    runs: reported.runs,
  };
}

/** Another workload counts from now on. Of the one before only what is open is left, and ends. */
function ofWorkload(reported: ReportedRuns, ref: string, nowMs: number): ReportedRuns {
  if (reported.ref === undefined || reported.ref === ref) return { ...reported, ref };
  return { ref, since: formatSeconds(nowMs), runs: (reported.runs ?? []).filter(isOpen) };
}

interface Wanted {
  /** Undefined: only the record changes. */
  beat: RunBeat | undefined;
  /** Undefined: of no Job that is known. */
  record?: RunRecord;
  sortAt: string;
  successAt?: string;
}

interface Known {
  facts: RunFacts;
  reported: ReportedRuns;
  /** When a run succeeded last. */
  succeededAt: string;
}

/** The beats of one Job, in order. */
function beatsOf(view: JobView, { facts, reported, succeededAt }: Known): Wanted[] {
  const { job, pods, isGone } = view;
  const { uid = '', name } = job.metadata;
  const known = reported.runs?.find((run) => run.uid === uid) ?? { uid };
  if (known.ended !== undefined) return [];
  const end = endOf(job);
  if (end !== undefined && known.started === undefined && !isAtOrAfter(end.at, reported.since)) return [];
  const isSuspended = end === undefined && isSuspendedNow(job);
  if (isSuspended) return known.started === undefined ? [] : [suspension(view, known, facts.nowMs)];
  const start = known.started === undefined ? startOf(view, known, end) : undefined;
  const wanted: Wanted[] = [];
  const started = known.started ?? start;
  if (start !== undefined) {
    const count = known.pauses === undefined ? '' : `-${known.pauses + 1}`;
    wanted.push({
      beat: beatOf(`${uid}-start${count}`, {
        status: 'start',
        runId: uid,
        observedAt: start,
        message: `Job ${name}.`,
      }),
      record: { ...known, started: start },
      sortAt: start,
    });
  }
  const record = { ...known, ...(started === undefined ? {} : { started }) };
  if (end !== undefined) {
    const leaving = leavingSince(view, facts);
    // Pods that are deleted with their namespace or Job look like failed ones.
    const isLeft = !end.isSuccess && leaving !== undefined && Date.parse(end.at) >= Date.parse(leaving);
    const sortAt = start !== undefined && byTime(start, end.at) > 0 ? start : end.at;
    const last = { ...record, ended: end.at };
    // What failed without a start has said so already.
    const isSaid = started === undefined && (isLeft || (known.blocked === true && !end.isSuccess));
    const isOver = !end.isSuccess && succeededAt !== '' && byTime(end.at, succeededAt) < 0;
    const own = isOver ? overtaken(endBeat(view, end)) : endBeat(view, end);
    const beat = isSaid ? undefined : isLeft ? deletion(view, end.at) : own;
    wanted.push({ beat, record: last, sortAt, ...(end.isSuccess ? { successAt: end.at } : {}) });
  } else if (isGone) {
    const at = formatSeconds(facts.nowMs);
    if (started !== undefined)
      wanted.push({ beat: deletion(view, at), record: { ...record, ended: at }, sortAt: at });
  } else if (started === undefined && known.blocked === undefined) {
    const block = blockOf(pods);
    if (block !== undefined) wanted.push(blocked(view, { known, block, nowMs: facts.nowMs }));
  }
  return wanted;
}

/** When the run began. Of a Job that has ended without pods, all that is left says when it was to begin. */
function startOf({ job, pods }: JobView, known: RunRecord, end: JobEnd | undefined): string | undefined {
  // A Job that goes on after a suspension has a new start time; its earlier pods do not count.
  const after = known.pauses === undefined ? '' : job.status?.startTime;
  if (after === undefined) return undefined;
  const first = firstStartOf(pods, after);
  if (first !== undefined || end === undefined || pods.length > 0 || known.blocked === true) return first;
  return job.status?.startTime;
}

/** Since when the Job, or what it is a part of, is being deleted. */
function leavingSince({ job }: JobView, { cronJob, namespaceLeaving }: RunFacts): string | undefined {
  const times = [job.metadata.deletionTimestamp, cronJob?.metadata.deletionTimestamp, namespaceLeaving];
  return times.filter((at) => at !== undefined).sort(byTime)[0];
}

/** A suspended Job is no run that is going on: when it goes on, it starts again. */
function suspension(
  { job: { metadata } }: JobView,
  { started: _, ...known }: RunRecord,
  nowMs: number,
): Wanted {
  const { uid = '', name } = metadata;
  const observedAt = formatSeconds(nowMs);
  const pauses = (known.pauses ?? 0) + 1;
  const body = { status: 'cancel' as const, runId: uid, observedAt, message: `Job ${name} was suspended.` };
  return { beat: beatOf(`${uid}-cancel-${pauses}`, body), record: { ...known, pauses }, sortAt: observedAt };
}

interface Blocked {
  known: RunRecord;
  block: NonNullable<ReturnType<typeof blockOf>>;
  nowMs: number;
}

function blocked({ job: { metadata } }: JobView, { known, block, nowMs }: Blocked): Wanted {
  const { uid = '', name } = metadata;
  const observedAt = formatSeconds(nowMs);
  const { reason, container, pod } = block;
  const message = `Job ${name} cannot start: ${reason}. Container ${container} of pod ${pod} waits.`;
  const body = { status: 'fail' as const, runId: uid, observedAt, message };
  return { beat: beatOf(`${uid}-blocked`, body), record: { ...known, blocked: true }, sortAt: observedAt };
}

/** Nobody saw how the run ended, and nothing is invented: not even that nobody saw it. */
function unseenEnd(run: RunRecord, nowMs: number): Wanted {
  const observedAt = formatSeconds(nowMs);
  const message = 'The end of this run was not seen: its Job is gone, and no operator was there.';
  const body = { status: 'cancel' as const, runId: run.uid, observedAt, message };
  // What closed it at a suspension was before its last start.
  const { started: since = observedAt, uid: runId } = run;
  const told = { since, observedFrom: since, kinds: ['success', 'fail', 'log'], runId };
  return {
    beat: { ...beatOf(`${run.uid}-cancel`, body), told },
    record: { ...run, ended: observedAt },
    sortAt: observedAt,
  };
}

function isOpen({ started, ended }: RunRecord): boolean {
  return started !== undefined && ended === undefined;
}

function withRun(runs: readonly RunRecord[], record: RunRecord): RunRecord[] {
  return [...runs.filter(({ uid }) => uid !== record.uid), record];
}

function later({ lastSuccessfulTime = '' }: ReportedRuns, at: string): string {
  return lastSuccessfulTime !== '' && isAtOrAfter(lastSuccessfulTime, at) ? lastSuccessfulTime : at;
}

/**
 * Only runs whose Job is known, or that are open. Where they are too many, the ones that ended first are forgotten, and
 * nothing that ended by then is reported any more.
 */
function pruned(state: ReportedRuns, jobs: readonly JobView[]): ReportedRuns {
  const there = new Set(jobs.map(({ job }) => job.metadata.uid));
  const kept = (state.runs ?? []).filter((run) => isOpen(run) || there.has(run.uid));
  const ended = kept
    .filter((run) => run.ended !== undefined)
    .sort((a, b) => byTime(a.ended ?? '', b.ended ?? ''));
  const dropped = ended.slice(0, Math.max(0, kept.length - MAX_REPORTED_RUNS));
  const last = dropped.at(-1)?.ended;
  const runs = kept.filter((run) => !dropped.includes(run));
  const floor = last === undefined ? state.since : formatSeconds(Date.parse(last) + 1000);
  const since = isAtOrAfter(state.since, floor) ? state.since : floor;
  return { ...state, since, runs };
}
