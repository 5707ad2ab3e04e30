// Applies a batch of beats to the locked live rows, in order of arrival. The domain decides; beat-transaction.ts reads
// and writes.
import { hash } from 'node:crypto';
import { type BeatRefusal, decideBeat, type TakenBeat } from '../domain/beat-decision.ts';
import type { BeatInput, RefusedBeat } from '../domain/beat-input.ts';
import type { Incident } from '../domain/incident.ts';
import { suppression } from '../domain/monitor.ts';
import { ProblemError } from '../domain/problem.ts';
import type { MonitorTransitions } from '../service/incidents/incident-writer.ts';
import type { BeatKeyRow } from '../store/beats/beat-keys.ts';
import type { ObservationRow } from '../store/beats/beats.ts';
import type { LiveRow } from '../store/monitors/live.ts';
import type { DirectoryEntry } from './monitor-directory.ts';

export interface BeatItem {
  entry: DirectoryEntry;
  /** A refused beat only moves a running deadline. */
  beat: BeatInput | RefusedBeat;
  idempotencyKey?: string;
}

export interface BeatAnswer {
  monitorId: string;
  sequence: number;
  receivedAt: string;
  nextDeadlineAt?: string;
}

/** An answer under an idempotency key, with the fingerprint of the beat that it was given to. */
export type KeptBeatAnswer = BeatAnswer & { of: string };

/** The answer of a recorded beat, or the problem for which a beat was not recorded. */
export type BeatOutcome = { answer: BeatAnswer } | { problem: ProblemError };

/** What the batch has read and what it will write. */
export interface Working {
  nowMs: number;
  live: Map<string, LiveRow>;
  openIncidents: Map<string, Incident[]>;
  /** Answers under idempotency keys, by `keyOf`. */
  answers: Map<string, KeptBeatAnswer>;
  changed: Map<string, LiveRow>;
  observations: ObservationRow[];
  keys: BeatKeyRow<KeptBeatAnswer>[];
  transitions: MonitorTransitions[];
  /** Monitors whose incidents changed in this batch: their next beats wait for the next batch. */
  settled: Set<string>;
}

export function keyOf(item: BeatItem): string | undefined {
  return item.idempotencyKey === undefined
    ? undefined
    : `${item.entry.monitor.monitorKey} ${item.idempotencyKey}`;
}

/** Applies one item. `deferred`: this batch changed the monitor's incidents, so the item waits for the next batch. */
export function applyItem(work: Working, item: BeatItem): BeatOutcome | 'deferred' {
  const { monitor } = item.entry;
  const row = work.changed.get(monitor.monitorKey) ?? work.live.get(monitor.monitorKey);
  if (!row || hasEnded(item.entry, work.nowMs)) return { problem: unknownAddress() };
  if (work.settled.has(monitor.monitorKey)) return 'deferred';
  const incidents = work.openIncidents.get(monitor.monitorKey) ?? [];
  const { plan, serviceState } = item.entry.tenant;
  const beaten = { timing: monitor.timing, plan, serviceState, live: row.live, incidents };
  const beat = findRepeat(work, item);
  if ('answer' in beat) return beat;
  const decision = decideBeat(beaten, beat, work.nowMs);
  return 'problem' in decision ? refuse(work, row, decision) : record(work, item, row, decision);
}

/** The answer to a beat that was sent before under its key; else the beat, refused if the key belongs to another one. */
function findRepeat(work: Working, item: BeatItem): BeatInput | RefusedBeat | { answer: BeatAnswer } {
  const key = keyOf(item);
  const known = key === undefined ? undefined : work.answers.get(key);
  const { lifecycle } = item.entry.monitor.timing;
  if (!known || 'problem' in item.beat || lifecycle === 'archived') return item.beat;
  const { of, ...answer } = known;
  return of === fingerprintOf(item.beat) ? { answer } : { kind: item.beat.kind, problem: otherBeat() };
}

function record(work: Working, item: BeatItem, row: LiveRow, { beat, result }: TakenBeat): BeatOutcome {
  const { monitor, tenant } = item.entry;
  const { projectId, monitorKey } = monitor;
  work.changed.set(monitorKey, { ...row, live: result.live });
  work.observations.push({
    projectId,
    monitorKey,
    sequence: result.sequence,
    kind: beat.kind,
    late: result.late,
    observedAt: beat.observedAt,
    durationSeconds: result.durationSeconds,
    exitStatus: beat.exitStatus,
    runId: beat.runId,
    message: beat.message,
    measurements: beat.measurements,
  });
  if (result.transitions.length > 0) {
    work.settled.add(monitorKey);
    work.transitions.push({
      ...monitor,
      ...tenant,
      lastBeatMs: result.live.lastBeatMs,
      nextDeadlineMs: result.live.deadlineMs,
      suppressed: suppression(monitor.timing, work.nowMs),
      transitions: result.transitions,
    });
  }
  const answer: BeatAnswer = {
    monitorId: monitor.monitorId,
    sequence: result.sequence,
    receivedAt: new Date(work.nowMs).toISOString(),
    nextDeadlineAt:
      result.live.deadlineMs === undefined ? undefined : new Date(result.live.deadlineMs).toISOString(),
  };
  if (item.idempotencyKey !== undefined) remember(work, item, { ...answer, of: fingerprintOf(beat) });
  return { answer };
}

function remember(work: Working, item: BeatItem, answer: KeptBeatAnswer): void {
  const key = keyOf(item);
  if (key === undefined || item.idempotencyKey === undefined) return;
  const { projectId, monitorKey } = item.entry.monitor;
  work.answers.set(key, answer);
  work.keys.push({ projectId, monitorKey, key: item.idempotencyKey, answer });
}

function fingerprintOf({
  kind,
  exitStatus,
  runId,
  message,
  observedAt,
  measurements = {},
}: BeatInput): string {
  const values = Object.entries(measurements).sort(([a], [b]) => (a < b ? -1 : 1));
  return hash('sha256', JSON.stringify([kind, exitStatus, runId, message, observedAt, values]), 'base64url');
}

function refuse(work: Working, row: LiveRow, { problem, live }: BeatRefusal): BeatOutcome {
  if (live === undefined) return { problem };
  const isChanged = live !== row.live;
  // A beat that is refused moves the deadline that runs, if there is one.
  const hasMoved = isChanged && live.deadlineMs !== undefined;
  if (isChanged) work.changed.set(row.monitorKey, { ...row, live });
  return { problem: withDeadline(problem, hasMoved) };
}

function withDeadline({ code, options }: ProblemError, hasMoved: boolean): ProblemError {
  const said = hasMoved ? 'The deadline was still moved.' : 'The deadline was not moved.';
  const detail = `${options.detail.slice(0, 1_023 - said.length)} ${said}`;
  return new ProblemError(code, { ...options, detail });
}

function hasEnded(entry: DirectoryEntry, nowMs: number): boolean {
  return entry.endsMs !== undefined && entry.endsMs <= nowMs;
}

/** 404 for an address that has ended or never existed: callers cannot tell which. */
export function unknownAddress(): ProblemError {
  return new ProblemError('not_found', {
    detail: 'This address is not known. Use the publishUrl of the monitor.',
  });
}

/** A success under the key of a start must not count as the start again and be lost (docs/contract/beats.md). */
function otherBeat(): ProblemError {
  return new ProblemError('idempotency_conflict', {
    detail: 'This Idempotency-Key belongs to another beat: use a new key for each beat.',
  });
}
