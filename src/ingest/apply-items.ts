// Applies a batch of beats to the locked live rows, in order of arrival. The domain decides; beat-transaction.ts reads
// and writes.
import { hash } from 'node:crypto';
import { recordedKind } from '../domain/beat.ts';
import { type BeatRefusal, decideBeat, type TakenBeat } from '../domain/beat-decision.ts';
import { type BeatInput, movesDeadline, type RefusedBeat } from '../domain/beat-input.ts';
import type { Incident } from '../domain/incident.ts';
import type { MonitorRules } from '../domain/judged-beat.ts';
import { suppression } from '../domain/monitor.ts';
import { serviceProblem } from '../domain/plan.ts';
import { ProblemError } from '../domain/problem.ts';
import type { CompiledRules } from '../domain/rules/compile.ts';
import type { RuleStates, Violation } from '../domain/rules/state.ts';
import type { MonitorTransitions } from '../service/incidents/incident-writer.ts';
import type { BeatKeyRow } from '../store/beats/beat-keys.ts';
import type { ObservationRow } from '../store/beats/beats.ts';
import type { LiveRow } from '../store/monitors/live.ts';
import type { JudgingBudget } from './judging-budget.ts';
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
  /** Absent where it violates no rule. */
  violations?: readonly Violation[];
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
  rules: WorkingRules;
  /** Monitors whose incidents changed in this batch: their next beats wait for the next batch. */
  settled: Set<string>;
}

/** What the rules of the batch's monitors remember, by monitor key. */
export interface WorkingRules {
  states: Map<string, RuleStates>;
  /** Of those that were built for this batch: of which measurements. */
  rebuilt: Map<string, readonly string[]>;
  /** Monitors of which a beat has no state yet, or would take too long: it and those after it wait for the next batch. */
  deferred: Set<string>;
  budget: JudgingBudget;
  /** The rules of those whose states are to be written. */
  changed: Map<string, CompiledRules>;
}

/** Whether the rules of its monitor judge the item. */
export function isJudged({ entry, beat }: BeatItem): boolean {
  if (entry.rules === undefined || 'problem' in beat || beat.kind !== 'success') return false;
  const isTaken = entry.monitor.timing.lifecycle !== 'archived';
  return isTaken && serviceProblem(entry.tenant.serviceState) === undefined;
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
  if (isDeferred(work.rules, item)) return 'deferred';
  const incidents = work.openIncidents.get(monitor.monitorKey) ?? [];
  const { plan, serviceState, returnedMs } = item.entry.tenant;
  const rules = rulesOf(work, item);
  const { timing } = monitor;
  const beaten = { timing, plan, serviceState, returnedMs, live: row.live, incidents, rules };
  const beat = findRepeat(work, item);
  if ('answer' in beat) return beat;
  const decision = decideBeat(beaten, beat, work.nowMs);
  return 'problem' in decision ? refuse(work, row, item, decision) : record(work, item, row, decision);
}

/** Whether the rules leave the item for the next batch. Then the monitor's later items are left too: their order is kept. */
function isDeferred({ states, deferred, budget }: WorkingRules, item: BeatItem): boolean {
  const { monitor, rules, tenant } = item.entry;
  const { monitorKey } = monitor;
  if (deferred.has(monitorKey)) return true;
  if (!rules || !isJudged(item)) return false;
  if (states.has(monitorKey) && budget.take(tenant.organizationId, rules)) return false;
  deferred.add(monitorKey);
  return true;
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

function rulesOf(work: Working, item: BeatItem): MonitorRules | undefined {
  const { monitor, rules } = item.entry;
  const states = isJudged(item) ? work.rules.states.get(monitor.monitorKey) : undefined;
  const built = work.rules.rebuilt.get(monitor.monitorKey);
  return rules && states && { compiled: rules, states, built };
}

function record(work: Working, item: BeatItem, row: LiveRow, taken: TakenBeat): BeatOutcome {
  const { monitor, tenant } = item.entry;
  const { projectId, monitorKey } = monitor;
  const { beat, result, states } = taken;
  const violations = taken.violations.length === 0 ? undefined : taken.violations;
  work.changed.set(monitorKey, { ...row, live: result.live });
  const { rules } = item.entry;
  if (rules && states !== undefined && states !== work.rules.states.get(monitorKey)) {
    work.rules.states.set(monitorKey, states);
    work.rules.changed.set(monitorKey, rules);
  }
  work.observations.push({
    projectId,
    monitorKey,
    sequence: result.sequence,
    kind: recordedKind(beat.kind),
    late: result.late,
    observedAt: beat.observedAt,
    durationSeconds: result.durationSeconds,
    exitStatus: beat.exitStatus,
    runId: beat.runId,
    message: beat.message,
    measurements: beat.measurements,
    violations,
  });
  if (result.transitions.length > 0) {
    if (states) work.rules.budget.addIncidents(tenant.organizationId, result.transitions.length);
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
    violations,
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

function refuse(
  work: Working,
  row: LiveRow,
  { beat }: BeatItem,
  { problem, live }: BeatRefusal,
): BeatOutcome {
  if (live === undefined) return { problem };
  const isChanged = live !== row.live;
  // A beat that is refused moves the deadline that runs, if there is one.
  const hasMoved = isChanged && movesDeadline(beat.kind) && live.deadlineMs !== undefined;
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
