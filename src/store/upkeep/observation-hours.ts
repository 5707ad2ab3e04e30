// Sums up observations by hours, before they are dropped: all days that are over, together, when no transaction can write
// into them any more. The hours of a monitor's day lie side by side: they are cheap to write, and a year of them is cheap
// to read. A step is one transaction, which also writes how far it went: it counts once, whoever takes it, and is taken
// again if it did not commit.
import { isDistributed } from '../postgres/engine.ts';
import { millis } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { findUnfinishedCommits } from '../postgres/unfinished-commits.ts';
import { findPiece, type Piece, type PieceLimits, type Place } from './observation-pieces.ts';
import { sumUpPiece } from './piece-sums.ts';

/**
 * From then on, after the end of a day, the open transactions are waited for. A beat reads the clock at most seconds
 * before its transaction has its id: statements have time limits.
 */
const GRACE = "interval '10 minutes'";
/** A day has 24 hours in every time zone of a session. */
const DAY = "interval '24 hours'";
/** So many days together. */
const MOST_DAYS = 32;

export interface StepLimits extends PieceLimits {
  /** The longest statement. Default: by the size of the piece. */
  statementMs?: number;
}

const MANY = 100_000;
const STATEMENT_MS = 60_000;
const STATEMENT_OF_MANY_MS = 600_000;

/** `waiting`: no day is over, or a transaction may still write into it, or another process takes the step. */
export type StepResult = 'worked' | 'waiting';

/** Takes the next step. `onPiece` gets what it tries to sum up. */
export async function sumUpStep(
  pool: Pick<Database, 'connect'>,
  limits: StepLimits,
  onPiece: (piece: Piece) => void = () => undefined,
): Promise<StepResult> {
  return await inTransaction(pool, async (tx) => {
    const row = await lockRow(tx);
    if (row === undefined) return 'waiting';
    if (row.place === undefined) return await beginClosing(tx);
    if (!row.isClosed || (isDistributed() && !(await isAtAllMachines(tx)))) return 'waiting';
    await limitStatements(tx, limits.statementMs ?? STATEMENT_MS);
    const piece = await findPiece(tx, row.place, limits);
    if (!piece) return await endDays(tx);
    onPiece(piece);
    if (piece.observations > MANY) await limitStatements(tx, limits.statementMs ?? STATEMENT_OF_MANY_MS);
    await sumUpPiece(tx, piece);
    await moveTo(tx, piece);
    return 'worked';
  });
}

/** The observations of the piece are in no hour. Does nothing if somebody has taken it meanwhile. */
export async function skipPiece(pool: Pick<Database, 'connect'>, piece: Piece): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const row = await lockRow(tx);
    const { place } = piece;
    if (JSON.stringify(row?.place) === JSON.stringify(place)) await moveTo(tx, piece);
  });
}

const limitStatements = (tx: Queryable, ms: number) => tx.query(`set local statement_timeout = ${ms}`);

interface Row {
  /** Undefined: to be closed first. */
  place: Place | undefined;
  /** No transaction can write into the days any more. */
  isClosed: boolean;
}

/**
 * Undefined while no day is over, and when another process has the row. An id that this cluster has not given out yet is
 * of a dump from another cluster: the days begin to close again.
 */
async function lockRow(tx: Queryable): Promise<Row | undefined> {
  const { rows } = await tx.query<{
    from_ms: number;
    to_ms: number;
    is_closing: boolean;
    is_closed: boolean;
    done_project_id: string | null;
    done_monitor_key: string;
    done_sequence: number | null;
  }>(
    `select ${millis('day')} as from_ms, ${millis('until')} as to_ms,
       coalesce(closing_xid < pg_snapshot_xmax(pg_current_snapshot()), false) as is_closing,
       coalesce(closing_xid <= pg_snapshot_xmin(pg_current_snapshot()), false) as is_closed,
       done_project_id, done_monitor_key, done_sequence
     from observation_sums where clock_timestamp() >= day + ${DAY} + ${GRACE}
     for update skip locked`,
  );
  const [row] = rows;
  if (!row) return undefined;
  if (!row.is_closing) return { place: undefined, isClosed: false };
  const { done_project_id: projectId, done_monitor_key: monitorKey, done_sequence: sequence } = row;
  const done = projectId === null ? undefined : { projectId, monitorKey, sequence: sequence ?? undefined };
  return { place: { fromMs: row.from_ms, toMs: row.to_ms, done }, isClosed: row.is_closed };
}

/** On Citus: whether the machines have committed all transactions that may have written into the days. */
async function isAtAllMachines(tx: Queryable): Promise<boolean> {
  const { rows } = await tx.query<{ closing_xid: number }>(
    'select closing_xid::text::bigint as closing_xid from observation_sums',
  );
  return (await findUnfinishedCommits(tx, rows[0]?.closing_xid ?? 0)).length === 0;
}

/** Of days that are under way already the end stays. */
async function beginClosing(tx: Queryable): Promise<StepResult> {
  await tx.query(
    `update observation_sums set closing_xid = pg_current_xact_id(), until = coalesce(until,
       least(date_trunc('day', clock_timestamp() - ${GRACE}, 'UTC'), day + ${MOST_DAYS} * ${DAY}))`,
  );
  return 'worked';
}

async function endDays(tx: Queryable): Promise<StepResult> {
  await tx.query(
    `update observation_sums set day = until, until = null, closing_xid = null,
       done_project_id = null, done_monitor_key = null, done_sequence = null`,
  );
  return 'worked';
}

async function moveTo(tx: Queryable, { last, stretch }: Piece): Promise<void> {
  await tx.query(
    'update observation_sums set done_project_id = $1, done_monitor_key = $2, done_sequence = $3',
    [last.projectId, last.monitorKey, stretch?.isLast === false ? stretch.to : null],
  );
}
