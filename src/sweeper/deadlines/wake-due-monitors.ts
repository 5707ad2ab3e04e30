// One batch of due monitors as one transaction: claim, read, decide (domain/wake.ts), write. Nothing is sent here.
import { isDeepStrictEqual } from 'node:util';
import type { Incident, Transition } from '../../domain/incident.ts';
import { firstViolation, type MonitorRules } from '../../domain/judged-beat.ts';
import { type LiveState, suppression } from '../../domain/monitor.ts';
import { serviceProblem } from '../../domain/plan.ts';
import { compileRules } from '../../domain/rules/compile.ts';
import { decodeStates } from '../../domain/rules/stored-states.ts';
import { type Moment, wakeMonitor, wakeSuspended } from '../../domain/wake.ts';
import type { TargetResult } from '../../service/callbacks/callback-targets.ts';
import { type MonitorTransitions, recordTransitions } from '../../service/incidents/incident-writer.ts';
import { findOpenIncidents } from '../../store/incidents/incidents.ts';
import {
  claimDueInShard,
  claimDueMonitors,
  type DueClaim,
  type DueMonitors,
  findDueShards,
  putOffWakes,
} from '../../store/monitors/due-monitors.ts';
import { type LiveRow, WOKEN_STATE } from '../../store/monitors/live.ts';
import { claimResting, type RestingClaim } from '../../store/monitors/resting-monitors.ts';
import { loadWatchedMonitors, type WatchedMonitor } from '../../store/monitors/watched-monitor.ts';
import { isFaultOfData } from '../../store/postgres/database-error.ts';
import { isDistributed } from '../../store/postgres/engine.ts';
import type { Pool, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { type Decided, nameCauses } from './name-causes.ts';
import { firstEnd, readCauses } from './read-causes.ts';
import { readMoments } from './read-moments.ts';
import { splitBatch } from './split-batch.ts';

export interface WokenBatch extends Omit<DueMonitors, 'rows'> {
  claimed: number;
  /** Fewer than the claim may take: nothing is left up to its moment. */
  isDrained: boolean;
  /** When the earliest of them was due, ms. */
  earliestMs?: number;
  transitions: Transition[];
  /** Monitors that could not be woken. They are tried again in a minute. */
  faults: { projectId: string; monitorKey: string; error: unknown }[];
  /** Of the first shard that could not be woken. The batch is what was woken in the others. */
  failure?: { error: unknown };
}

/** The database refuses a batch for the data in it: the same rows would fail again. */
export class BatchFaultError extends Error {
  readonly rows: readonly LiveRow[];

  constructor(rows: readonly LiveRow[], cause: unknown) {
    super('A batch of due monitors could not be written.', { cause });
    this.name = 'BatchFaultError';
    this.rows = rows;
  }
}

/** How long a monitor at fault is left alone. */
export const FAULT_DELAY_MS = 60_000;

export interface BatchOptions {
  claim: DueClaim;
  /** Floor of a learned cadence. */
  minimumIntervalMs: number;
  /** Called when as many rows as the claim may take are locked: more may be due. */
  onFull?: () => void;
  /** When it aborts, no shard is tried after one that failed. */
  signal?: AbortSignal;
}

/**
 * Wakes at most `claim.limit` monitors. Throws `BatchFaultError` for a fault in the rows; the batch of a database with shards
 * has it as its `failure`.
 */
export async function wakeDueMonitors(pool: Pool, options: BatchOptions): Promise<WokenBatch> {
  const { claim } = options;
  if (!isDistributed()) return await wakeClaimed(pool, options, (tx) => claimDueMonitors(tx, claim));
  return await wakeByShards(pool, options);
}

/**
 * Wakes monitors of a project that rest; `lastKey` is the last one of the batch. Throws `BatchFaultError`, as `wakeDueMonitors`
 * does. One that is still suspended rests on.
 */
export async function wakeResting(
  pool: Pool,
  claim: RestingClaim,
  minimumIntervalMs: number,
): Promise<WokenBatch & { lastKey?: string }> {
  const options = { claim: { limit: claim.limit, firstBucket: 0 }, minimumIntervalMs };
  let lastKey: string | undefined;
  const batch = await wakeClaimed(pool, options, async (tx) => {
    const resting = await claimResting(tx, claim);
    lastKey = resting.rows.at(-1)?.monitorKey;
    return resting;
  });
  return { ...batch, lastKey };
}

/**
 * A transaction for each shard: one that fails holds up no other. The batch counts as full where as many were due as the claim
 * may take.
 */
async function wakeByShards(pool: Pool, options: BatchOptions): Promise<WokenBatch> {
  const { claim, minimumIntervalMs, onFull, signal } = options;
  const { shards, isFull, ...moment } = await findDueShards(pool, claim);
  if (isFull) onFull?.();
  const batch: WokenBatch = { ...moment, claimed: 0, isDrained: true, transitions: [], faults: [] };
  for (const shard of shards) {
    if (batch.failure && signal?.aborted) break;
    const part = await wakeClaimed(pool, { claim, minimumIntervalMs }, (tx) =>
      claimDueInShard(tx, shard, claim),
    ).catch((error: unknown) => {
      batch.failure ??= { error };
    });
    if (!part) continue;
    batch.claimed += part.claimed;
    batch.earliestMs = Math.min(batch.earliestMs ?? moment.nowMs, part.earliestMs ?? moment.nowMs);
    batch.transitions.push(...part.transitions);
    batch.faults.push(...part.faults);
  }
  // What others hold is theirs: where nothing could be claimed there is nothing to go on with.
  return { ...batch, isDrained: !isFull || batch.claimed === 0 };
}

async function wakeClaimed(
  pool: Pool,
  { claim, minimumIntervalMs, onFull }: BatchOptions,
  claimRows: (tx: Queryable) => Promise<DueMonitors>,
): Promise<WokenBatch> {
  return await inTransaction(pool, async (tx) => {
    const due = await claimRows(tx);
    const { rows, ...moment } = due;
    if (rows.length === claim.limit) onFull?.();
    if (rows.length === 0) return { ...moment, claimed: 0, isDrained: true, transitions: [], faults: [] };
    try {
      return { ...(await wakeRows(tx, due, minimumIntervalMs)), isDrained: rows.length < claim.limit };
    } catch (error) {
      throw isFaultOfData(error) ? new BatchFaultError(rows, error) : error;
    }
  });
}

async function wakeRows(
  tx: Queryable,
  due: DueMonitors,
  minimumIntervalMs: number,
): Promise<Omit<WokenBatch, 'isDrained'>> {
  const { rows: claimed, ...clock } = due;
  const { taken: rows, left } = splitBatch(claimed, clock);
  const monitors = await loadWatchedMonitors(tx, rows, minimumIntervalMs);
  // A single row may be the one at which a batch failed: its counter is not trusted.
  const isAlone = claimed.length === 1;
  const incidents = await findOpenIncidents(
    tx,
    rows.filter(({ live }) => isAlone || live.openIncidents > 0),
  );
  const isDue = ({ live }: LiveRow) => (live.escalatesMs ?? Number.POSITIVE_INFINITY) <= clock.uptoMs;
  const work: Work = { changed: left, waiting: [], transitions: [], faults: [] };
  const rules = new Map<string, MonitorRules>();
  const atFault = new Set<LiveRow>();
  for (const row of rows.filter(isDue)) {
    try {
      const known = rulesOf(row, monitors.get(row.monitorKey));
      if (known) rules.set(row.monitorKey, known);
    } catch (error) {
      atFault.add(row);
      leaveAlone(work, row, { nowMs: clock.nowMs, error });
    }
  }
  const causes = await readCauses(tx, rows, { monitors, incidents, nowMs: clock.nowMs });
  const sinceMs = Math.min(
    firstStart(rows),
    firstEnd(causes),
    ...[...rules.values()].map(({ states }) => firstViolation(states)),
  );
  const momentFor = await readMoments(tx, clock, { monitors, sinceMs });
  const decided: DecidedRow[] = [];
  for (const row of rows) {
    if (atFault.has(row)) continue;
    const open = incidents.get(row.monitorKey) ?? [];
    const live = isAlone ? { ...row.live, openIncidents: open.length } : row.live;
    const monitor = monitors.get(row.monitorKey);
    const moment = { ...momentFor(monitor), causes: causes.get(row.monitorKey) };
    const known = { incidents: open, rules: rules.get(row.monitorKey), moment };
    decided.push(...decide(work, { ...row, live }, monitor, known));
  }
  const targets = await nameCauses(tx, decided);
  for (const one of decided) settle(work, one, targets.get(one.row.monitorKey), clock.nowMs);
  await putOffWakes(tx, work.waiting);
  await recordTransitions(tx, work.transitions, clock.nowMs, work.changed);
  return {
    ...clock,
    claimed: claimed.length,
    earliestMs: Math.min(...claimed.map(({ live }) => live.wakeMs ?? clock.nowMs)),
    transitions: work.transitions.flatMap((monitor) => monitor.transitions),
    faults: work.faults,
  };
}

/** Undefined where it has no rules, or their states are lost. */
function rulesOf(
  { live: { ruleStates } }: LiveRow,
  monitor: WatchedMonitor | undefined,
): MonitorRules | undefined {
  if (ruleStates === undefined || !monitor?.measurements) return undefined;
  const compiled = compileRules(monitor.measurements);
  return { compiled, states: decodeStates(compiled, ruleStates) };
}

interface Work {
  changed: LiveRow[];
  /** Of these only the wake has changed. */
  waiting: LiveRow[];
  transitions: MonitorTransitions[];
  faults: WokenBatch['faults'];
}

interface DecidedRow extends Decided {
  row: LiveRow;
}

/** Nothing where the row is written without more ado. */
function decide(
  work: Work,
  row: LiveRow,
  monitor: WatchedMonitor | undefined,
  known: { incidents: readonly Incident[]; rules?: MonitorRules; moment: Moment },
): DecidedRow[] {
  const { incidents, rules } = known;
  const { nowMs } = known.moment;
  try {
    // Every change of a configuration locks the live row first: another version is a bug, not a race.
    if (monitor?.configurationVersion !== row.configurationVersion) {
      throw new Error('The live row and the configuration of the monitor have different versions.');
    }
    if (serviceProblem(monitor.serviceState)) {
      work.changed.push({ ...row, live: wakeSuspended(monitor.timing, row.live, nowMs) });
      return [];
    }
    const { timing, returnedMs } = monitor;
    const moment = { ...known.moment, returnedMs };
    const wake = (told?: ReadonlySet<string>) => {
      const causes = moment.causes && { ...moment.causes, told };
      return wakeMonitor(timing, row.live, incidents, { ...moment, causes }, rules);
    };
    return [{ row, monitor, result: wake(), again: wake }];
  } catch (error) {
    leaveAlone(work, row, { nowMs, error });
    return [];
  }
}

function settle(
  work: Work,
  { row, monitor, result }: DecidedRow,
  target: TargetResult | undefined,
  nowMs: number,
): void {
  const { live, transitions, waitsForOperator } = result;
  if (waitsForOperator && transitions.length === 0 && isOnlyPutOff(row.live, live)) {
    work.waiting.push({ ...row, live });
    return;
  }
  work.changed.push({ ...row, live });
  work.transitions.push({
    ...monitor,
    projectId: row.projectId,
    monitorKey: row.monitorKey,
    lastBeatMs: live.lastBeatMs,
    nextDeadlineMs: live.deadlineMs,
    suppressed: suppression(monitor.timing, nowMs),
    origin: monitor.declaredBy ?? null,
    target,
    transitions,
  });
}

const VISIBLE = Object.keys(WOKEN_STATE).filter((name) => name !== 'wakeMs') as (keyof LiveState)[];

function isOnlyPutOff(before: LiveState, after: LiveState): boolean {
  return VISIBLE.every((name) => isDeepStrictEqual(before[name], after[name]));
}

/** A monitor at fault must not hold up the others of the batch. */
function leaveAlone(
  { changed, faults }: Pick<Work, 'changed' | 'faults'>,
  row: LiveRow,
  { nowMs, error }: { nowMs: number; error: unknown },
): void {
  const { projectId, monitorKey, live } = row;
  changed.push({ ...row, live: { ...live, wakeMs: nowMs + FAULT_DELAY_MS } });
  faults.push({ projectId, monitorKey, error });
}

/**
 * When the first of the clocks and limits that run in these rows began: an outage that ended before cannot have touched
 * them. A run that was left open long ago must not make each batch read the outages of a year.
 */
function firstStart(rows: readonly LiveRow[]): number {
  const starts = rows.flatMap(({ live: { anchorMs, deadlineMs, openRuns } }) => [
    ...(deadlineMs === undefined ? [] : [anchorMs ?? deadlineMs]),
    ...openRuns.flatMap(({ startedMs, dueMs, overdue }) =>
      dueMs === undefined || overdue ? [] : [startedMs],
    ),
  ]);
  return starts.reduce((first, startMs) => Math.min(first, startMs), Number.MAX_SAFE_INTEGER);
}
