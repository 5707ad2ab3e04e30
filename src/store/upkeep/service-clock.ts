// The service clock (the last moment at which some api could accept beats) and the outages in which none could
// (docs/contract/deadlines.md). Every api advances the clock each second, and the one that finds a gap writes the
// outage. The sweeper reads both. Lock order: the clock's row, then outages, which have no other writers, then new
// entries.
import type { Outage } from '../../domain/monitor.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Pool, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';

/** An outage is a longer time without an advance by any api, or a longer time in which no waiting beat gets through. */
export const OUTAGE_MS = 3_000;
/**
 * A running outage is written in pieces: each moves a deadline by its own length. One outage that grows would move it
 * by its whole length again and again.
 */
const PIECE_MS = 60_000;

/** `outage`: nobody accepted beats in this span. `set_back`: the database's clock went from its start to its end. */
export interface ClockGap extends Outage {
  kind: 'outage' | 'set_back';
}

/**
 * Records that this api can accept beats now. Returns the gap that this advance has closed, if there was one. An outage
 * is then written, with an entry in the timeline of each incident that has not ended.
 */
export async function advanceServiceClock(pool: Pool): Promise<ClockGap | undefined> {
  const moved = await pool.query({
    name: 'advance-service-clock',
    text: `update service_clock set last_ms = greatest(last_ms, c.now_ms)
      from (select ${NOW_MS} as now_ms) c where abs(c.now_ms - last_ms) <= ${OUTAGE_MS}`,
  });
  if (moved.rowCount !== 0) return undefined;
  return await inTransaction(pool, closeGap);
}

/** An outage that is not over. `pieceMs`: when its last piece began. */
export interface OutageUnderWay extends Outage {
  pieceMs: number;
}

/**
 * Records that beats have waited for `stuckMs` at this api and none got through, whatever other apis record: only an
 * api with beats meets a locked table or a full disk. The span becomes an outage while it lasts, so that no sweeper
 * opens anything in it; the clock does not move. `known`: the result of the last call for the same fault. The caller
 * notifies incidents when the fault is over.
 */
export async function recordStuckBeats(
  pool: Pool,
  stuckMs: number,
  known?: OutageUnderWay,
): Promise<OutageUnderWay> {
  return await inTransaction(pool, async (tx) => {
    const { fromMs: lastMs, toMs: nowMs } = await lockClock(tx);
    const pieceMs = beginPiece(known, { lastMs, nowMs, stuckMs: Math.ceil(stuckMs) });
    await writeOutage(tx, { fromMs: pieceMs, toMs: nowMs });
    return { fromMs: Math.min(known?.fromMs ?? pieceMs, pieceMs), toMs: nowMs, pieceMs };
  });
}

function beginPiece(
  known: OutageUnderWay | undefined,
  { lastMs, nowMs, stuckMs }: { lastMs: number; nowMs: number; stuckMs: number },
): number {
  // If `known` ends in the future, the clock was set back since.
  if (known && known.toMs <= nowMs) return known.toMs - known.pieceMs < PIECE_MS ? known.pieceMs : known.toMs;
  // A gap of the clock before the wait is part of the outage.
  return nowMs - lastMs > OUTAGE_MS ? Math.min(lastMs, nowMs - stuckMs) : nowMs - stuckMs;
}

/** From the last advance to now, read under the lock: an api that waited for it sees what the other one wrote. */
async function lockClock(tx: Queryable): Promise<Outage> {
  await tx.query(`insert into service_clock (last_ms) values (${NOW_MS}) on conflict do nothing`);
  const { rows } = await tx.query<{ last_ms: number; now_ms: number }>(
    `with locked as materialized (select last_ms from service_clock for update)
     select last_ms, ${NOW_MS} as now_ms from locked`,
  );
  const [clock] = rows;
  if (!clock) throw new Error('The service clock has no row.');
  return { fromMs: clock.last_ms, toMs: clock.now_ms };
}

async function closeGap(tx: Queryable): Promise<ClockGap | undefined> {
  const gap = await lockClock(tx);
  const lengthMs = gap.toMs - gap.fromMs;
  if (lengthMs < -OUTAGE_MS) return await followSetBack(tx, gap);
  const isOutage = lengthMs > OUTAGE_MS;
  const isNew = isOutage && !(await isRecorded(tx, gap));
  if (isNew) {
    await writeOutage(tx, gap);
    await notifyIncidentsOfOutage(tx, gap);
  }
  await tx.query('update service_clock set last_ms = greatest(last_ms, $1)', [gap.toMs]);
  return isNew ? { kind: 'outage', ...gap } : undefined;
}

/** Whether an api with stuck beats has written the outage: its record begins with the gap and lasts as long. */
async function isRecorded(tx: Queryable, { fromMs, toMs }: Outage): Promise<boolean> {
  const { rows } = await tx.query('select from service_outages where to_ms > $1 and to_ms >= $2 limit 1', [
    fromMs,
    toMs - OUTAGE_MS,
  ]);
  return rows.length > 0;
}

/**
 * Follows a database clock that was set back. A service clock that stays ahead would show no outage until that time
 * comes again, and an outage up to that time (the clock was wrong before) would put off every deadline until then.
 */
async function followSetBack(tx: Queryable, gap: Outage): Promise<ClockGap> {
  await tx.query('update service_outages set to_ms = $1 where from_ms < $1 and to_ms > $1', [gap.toMs]);
  await tx.query('update service_clock set last_ms = $1', [gap.toMs]);
  return { kind: 'set_back', ...gap };
}

/** An outage with that start may exist, up to the moment at which the api that wrote it died: it becomes longer. */
async function writeOutage(tx: Queryable, { fromMs, toMs }: Outage): Promise<void> {
  await tx.query(
    `insert into service_outages (from_ms, to_ms) values ($1, $2)
     on conflict (from_ms) do update set to_ms = greatest(service_outages.to_ms, excluded.to_ms)`,
    [fromMs, toMs],
  );
}

/**
 * Writes the span into the timeline of each incident that has not ended. A second call for the same span adds nothing.
 */
export async function notifyIncidentsOfOutage(db: Queryable, { fromMs, toMs }: Outage): Promise<void> {
  // Entries are read in the order of their ids: these are UUIDv7s from the outage's end, one for each incident.
  await db.query(
    `insert into timeline_entries (project_id, incident_id, entry_id, at, type, detail)
     select i.project_id, i.incident_id,
       (lpad(to_hex($1::bigint), 12, '0') || '7' || left(h.hash, 3) || '8' || substr(h.hash, 4, 15))::uuid,
       timestamptz 'epoch' + $1::bigint * interval '1 millisecond', 'service_outage', $2
     from incidents i, md5(i.incident_id || $1::text) as h (hash)
     where i.state in ('open', 'recovering')
     on conflict do nothing`,
    [toMs, JSON.stringify({ from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() })],
  );
}

/** Outages that ended after `sinceMs`, oldest first. */
export async function readOutages(db: Queryable, sinceMs: number): Promise<Outage[]> {
  const { rows } = await db.query<{ from_ms: number; to_ms: number }>(
    'select from_ms, to_ms from service_outages where to_ms > $1 order by to_ms',
    [sinceMs],
  );
  return rows.map((row) => ({ fromMs: row.from_ms, toMs: row.to_ms }));
}

/** Deletes outages that can no longer move a deadline. */
export async function deleteOutages(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from service_outages where to_ms < $1', [beforeMs]);
}
