// Where a reader of the status feed stands: a snapshot of Postgres, and the history of transactions in which it is valid
// (docs/adr/0004).
import { createHash } from 'node:crypto';
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import { findUnfinishedCommits } from '../postgres/unfinished-commits.ts';

/**
 * A Postgres snapshot (pg_snapshot): transactions before `xmin` are in it, those from `xmax` on and `running` are not.
 */
export interface Snapshot {
  xmin: number;
  xmax: number;
  /** Ascending. */
  running: readonly number[];
  /** A beginning of the one that was read, for which a cursor had no room: changes after it are shown again. */
  isCut?: true;
}

export interface FeedMoment {
  /** The name of this history. A new one costs each reader a listing; one that is kept by mistake costs it changes. */
  history: string;
  snapshot: Snapshot;
}

export interface MomentColumns {
  history: string;
  snapshot: string;
}

/**
 * What changes when rows or transaction ids can be those of the past: another cluster, or a promotion or a recovery to a
 * point in time (the timeline); an older state of the volume (the start of the server); a crash, after which Postgres may
 * give ids again that it had not written down (it resets its statistics); another database of the server, or a table that
 * was made anew or emptied, where a dump brings rows with their former stamps. The index is there after those rows.
 */
export const MOMENT = `select concat_ws('.', (pg_control_system()).system_identifier,
    left(pg_walfile_name(pg_current_wal_lsn()), 8), extract(epoch from pg_postmaster_start_time()),
    (select extract(epoch from stats_reset) from pg_stat_wal),
    (select oid from pg_database where datname = current_database()),
    pg_relation_filenode(to_regclass('monitor_live')), pg_relation_filenode(to_regclass('monitor_live_pkey'))) as history,
  pg_current_snapshot()::text as snapshot`;

export function toMoment({ history, snapshot }: MomentColumns): FeedMoment {
  const [xmin, xmax, running] = snapshot.split(':');
  return {
    // As cursors have it.
    history: createHash('sha256').update(history).digest('hex').slice(0, 16),
    snapshot: {
      xmin: Number(xmin),
      xmax: Number(xmax),
      running: running ? running.split(',').map(Number) : [],
    },
  };
}

/**
 * On Citus: the moment of a read that comes after it, whose machines have snapshots of their own. What the coordinator has
 * committed and a machine has not runs in it still, so that a later read finds it (docs/adr/0012).
 */
export async function readMoment(db: Queryable): Promise<FeedMoment> {
  const { rows } = await db.query<MomentColumns>(MOMENT);
  const [row] = rows;
  if (!row) throw new Error('The database answered without a snapshot.');
  const moment = toMoment(row);
  const unfinished = await findUnfinishedCommits(db, moment.snapshot.xmax);
  return { ...moment, snapshot: withRunning(moment.snapshot, unfinished) };
}

/** The snapshot without those transactions. */
export function withRunning({ xmin, xmax, running }: Snapshot, more: readonly number[]): Snapshot {
  const all = [...new Set([...running, ...more])].sort((a, b) => a - b);
  return { xmin: Math.min(xmin, ...more), xmax, running: all };
}

/** SQL: the snapshot of the statement; on Citus the parameter that has it. */
export function presentSnapshot(parameter: string): string {
  return isDistributed() ? `${parameter}::pg_snapshot` : 'pg_current_snapshot()';
}

/** The text of pg_snapshot: `xmin:xmax:running,…`. */
export function snapshotText({ xmin, xmax, running }: Snapshot): string {
  return `${xmin}:${xmax}:${running.join(',')}`;
}
