// One batch of beats as one transaction in two round trips: lock and read, then write and commit. What only some monitors have
// (open incidents, idempotency keys, states of rules that must be built) costs one round trip more for all of them together; so
// does a stale configuration. Lock order: live rows in key order.
import type { Incident } from '../domain/incident.ts';
import { encodeStates } from '../domain/rules/stored-states.ts';
import { recordTransitions } from '../service/incidents/incident-writer.ts';
import { loadRuleStates, type RuledMonitor } from '../service/monitors/rule-states.ts';
import { findBeatKeys, insertBeatKeys } from '../store/beats/beat-keys.ts';
import { writeBeatBatch } from '../store/beats/beats.ts';
import { findOpenIncidents } from '../store/incidents/incidents.ts';
import { type LiveRow, lockFreeLive, lockLive, type MonitorRef } from '../store/monitors/live.ts';
import { isRefusedStatement } from '../store/postgres/database-error.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import { allAnswered } from '../store/postgres/transaction.ts';
import {
  applyItem,
  type BeatItem,
  type BeatOutcome,
  isJudged,
  type KeptBeatAnswer,
  type Working,
  type WorkingRules,
} from './apply-items.ts';
import { JudgingBudget } from './judging-budget.ts';
import type { LaneBatch } from './lane.ts';
import type { MonitorDirectory } from './monitor-directory.ts';

/**
 * In the order of the items; a `deferred` item belongs in the next batch. `locked`: somebody else holds the monitor's
 * row.
 */
export type BatchResult = (BeatOutcome | 'deferred' | 'locked')[];

/**
 * Runs the batch on a pipelined connection and returns after COMMIT. After a `CommitUnknownError` the lane's row must be
 * asked; after any other error nothing is written. With `skipsLocked` it waits for no live row.
 */
export async function runBeatTransaction(
  client: Queryable,
  items: readonly BeatItem[],
  lane: LaneBatch & { directory: MonitorDirectory; skipsLocked?: boolean },
): Promise<BatchResult> {
  const refs = distinctRefs(items);
  const lock = lane.skipsLocked ? lockFreeLive : lockLive;
  const [, locked] = await Promise.all([client.query('begin'), lock(client, refs)]);
  const { nowMs } = locked;
  const live = new Map(locked.rows.map((row) => [row.monitorKey, row]));
  await refreshEntries(client, items, live, lane.directory);
  const { judged, deferred } = chooseJudged(items, live);
  const [openIncidents, answers, rules] = await allAnswered([
    readIncidents(
      client,
      locked.rows.filter(({ monitorKey }) => !deferred.has(monitorKey)),
    ),
    readAnswers(client, items),
    readRules(client, judged, nowMs),
  ]);
  const work: Working = {
    nowMs,
    live,
    openIncidents,
    answers,
    rules: { ...rules, deferred, budget: new JudgingBudget() },
    changed: new Map(),
    observations: [],
    keys: [],
    transitions: [],
    settled: new Set(),
  };
  const results = items.map((item) =>
    locked.heldElsewhere?.has(item.entry.monitor.monitorKey) ? 'locked' : applyItem(work, item),
  );
  rememberRules(work);
  if (work.changed.size === 0) {
    await client.query('rollback');
    return results;
  }
  await recordTransitions(client, work.transitions, work.nowMs);
  await insertBeatKeys(client, work.keys);
  await writeAndCommit(client, work, { ...lane, results });
  return results;
}

/** Puts the states that have changed into the live rows that are written. */
function rememberRules({ rules, live, changed }: Working): void {
  for (const [monitorKey, compiled] of rules.changed) {
    const row = changed.get(monitorKey) ?? live.get(monitorKey);
    const states = rules.states.get(monitorKey);
    if (!row || !states) continue;
    changed.set(monitorKey, { ...row, live: { ...row.live, ruleStates: encodeStates(compiled, states) } });
  }
}

async function writeAndCommit(
  client: Queryable,
  work: Working,
  lane: LaneBatch & { results: BatchResult },
): Promise<void> {
  const written = writeBeatBatch(client, {
    nowMs: work.nowMs,
    live: [...work.changed.values()],
    observations: work.observations,
    lane,
  });
  const committed = client.query('commit');
  const [write, commit] = await Promise.allSettled([written, committed]);
  if (commit.status === 'fulfilled' && commit.value.command === 'COMMIT') return;
  const [cause] = [write, commit].flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
  // Postgres answers COMMIT with ROLLBACK after a failed write.
  const isKnown = commit.status === 'fulfilled' || isRefusedStatement(cause);
  throw isKnown && cause ? cause : new CommitUnknownError(lane.results, cause);
}

/** COMMIT was sent, and its answer is unknown or was not a commit. */
export class CommitUnknownError extends Error {
  /** The answers, if the lane's row shows that the batch was committed. */
  readonly results: BatchResult;

  constructor(results: BatchResult, cause: unknown) {
    super('The commit of a batch of beats was not confirmed.', { cause });
    this.name = 'CommitUnknownError';
    this.results = results;
  }
}

function distinctRefs(items: readonly BeatItem[]): MonitorRef[] {
  const refs = new Map<string, MonitorRef>();
  for (const { entry } of items) refs.set(entry.monitor.monitorKey, entry.monitor);
  return [...refs.values()];
}

function readIncidents(client: Queryable, rows: readonly LiveRow[]): Promise<Map<string, Incident[]>> {
  return findOpenIncidents(
    client,
    rows.filter(({ live }) => live.openIncidents > 0),
  );
}

async function readAnswers(
  client: Queryable,
  items: readonly BeatItem[],
): Promise<Map<string, KeptBeatAnswer>> {
  const keys = items.flatMap(({ entry, idempotencyKey }) =>
    idempotencyKey === undefined ? [] : [{ ...entry.monitor, key: idempotencyKey }],
  );
  if (keys.length === 0) return new Map();
  const rows = await findBeatKeys<KeptBeatAnswer>(client, keys);
  return new Map(rows.map((row) => [`${row.monitorKey} ${row.key}`, row.answer]));
}

/**
 * To build states, a batch takes so many looks at past values: about 20 ms. A change of thousands of monitors, or of 64
 * measurements, must not hold up the beats of others.
 */
const MOST_LOOKS_BACK = 40_000;

/**
 * Whose rules judge beats of this batch, and whose beats wait for the next one, so that nothing is read for them: neither what
 * the rules remember nor their incidents, of which a monitor may have hundreds.
 */
function chooseJudged(
  items: readonly BeatItem[],
  live: Working['live'],
): { judged: RuledMonitor[]; deferred: Set<string> } {
  const chosen = new Set<string>();
  const judged = new Map<string, RuledMonitor>();
  const deferred = new Set<string>();
  const budget = new JudgingBudget();
  for (const item of items) {
    const { monitor, rules, tenant } = item.entry;
    const { projectId, monitorKey } = monitor;
    const row = live.get(monitorKey);
    if (!row || !rules || deferred.has(monitorKey)) continue;
    const { lastSequence, openIncidents: incidents, ruleStates } = row.live;
    const looks = isJudged(item) ? rules.looks : 0;
    if (!chosen.has(monitorKey) && !budget.take(tenant.organizationId, { looks, incidents })) {
      deferred.add(monitorKey);
      continue;
    }
    chosen.add(monitorKey);
    if (looks > 0) judged.set(monitorKey, { projectId, monitorKey, rules, lastSequence, ruleStates });
  }
  return { judged: [...judged.values()], deferred };
}

/** The states of the rules that judge beats of this batch, with those that had to be built: they are written with it. */
async function readRules(
  client: Queryable,
  judged: readonly RuledMonitor[],
  nowMs: number,
): Promise<Pick<WorkingRules, 'states' | 'rebuilt' | 'changed'>> {
  const bounds = { nowMs, mostLooks: MOST_LOOKS_BACK };
  const { states, rebuilt } = await loadRuleStates(client, judged, bounds);
  const changed: WorkingRules['changed'] = new Map();
  for (const { monitorKey, rules } of judged) if (rebuilt.has(monitorKey)) changed.set(monitorKey, rules);
  return { states, rebuilt, changed };
}

/** Reloads entries with another configuration version than the locked row; the address may have ended too. */
async function refreshEntries(
  client: Queryable,
  items: readonly BeatItem[],
  live: Working['live'],
  directory: MonitorDirectory,
): Promise<void> {
  const stale = items.filter(({ entry }) => {
    const row = live.get(entry.monitor.monitorKey);
    return row !== undefined && row.configurationVersion !== entry.monitor.configurationVersion;
  });
  if (stale.length === 0) return;
  const fresh = await directory.reload(client, [...new Set(stale.map(({ entry }) => entry.address))]);
  for (const item of stale) {
    const entry = fresh.get(item.entry.address);
    if (entry) item.entry = entry;
    else live.delete(item.entry.monitor.monitorKey);
  }
}
