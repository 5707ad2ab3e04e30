// One batch of beats as one transaction in two round trips: lock and read, then write and commit. Rarer cases (a stale
// configuration, open incidents, idempotency keys) cost one round trip more. Lock order: live rows in key order.
import type { Incident } from '../domain/incident.ts';
import { recordTransitions } from '../service/incidents/incident-writer.ts';
import { findBeatKeys, insertBeatKeys } from '../store/beats/beat-keys.ts';
import { writeBeatBatch } from '../store/beats/beats.ts';
import { findOpenIncidents } from '../store/incidents/incidents.ts';
import { type LiveRow, lockFreeLive, lockLive, type MonitorRef } from '../store/monitors/live.ts';
import { isRefusedStatement } from '../store/postgres/database-error.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import {
  applyItem,
  type BeatItem,
  type BeatOutcome,
  type KeptBeatAnswer,
  type Working,
} from './apply-items.ts';
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
  const work: Working = {
    nowMs: locked.nowMs,
    live: new Map(locked.rows.map((row) => [row.monitorKey, row])),
    openIncidents: await readIncidents(client, locked.rows),
    answers: await readAnswers(client, items),
    changed: new Map(),
    observations: [],
    keys: [],
    transitions: [],
    settled: new Set(),
  };
  await refreshEntries(client, items, work, lane.directory);
  const results = items.map((item) =>
    locked.heldElsewhere?.has(item.entry.monitor.monitorKey) ? 'locked' : applyItem(work, item),
  );
  if (work.changed.size === 0) {
    await client.query('rollback');
    return results;
  }
  await recordTransitions(client, work.transitions, work.nowMs);
  await insertBeatKeys(client, work.keys);
  await writeAndCommit(client, work, { ...lane, results });
  return results;
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

/** Reloads entries with another configuration version than the locked row; the address may have ended too. */
async function refreshEntries(
  client: Queryable,
  items: readonly BeatItem[],
  work: Working,
  directory: MonitorDirectory,
): Promise<void> {
  const stale = items.filter(({ entry }) => {
    const row = work.live.get(entry.monitor.monitorKey);
    return row !== undefined && row.configurationVersion !== entry.monitor.configurationVersion;
  });
  if (stale.length === 0) return;
  const fresh = await directory.reload(client, [...new Set(stale.map(({ entry }) => entry.address))]);
  for (const item of stale) {
    const entry = fresh.get(item.entry.address);
    if (entry) item.entry = entry;
    else work.live.delete(item.entry.monitor.monitorKey);
  }
}
