// The service's own life: the last moment at which some api could accept beats, and the spans in which none could
// (completion.md 3.2). Every api moves the clock each second; who finds a gap writes the outage. The sweeper reads both.
// Lock order: the clock's row, then rows that are only inserted.
import type { Outage } from '../domain/monitor.ts';
import type { Pool, Queryable } from './pool.ts';
import { inTransaction } from './transaction.ts';

/** A longer time without a fresh heartbeat of any api is an outage. */
const OUTAGE_MS = 3_000;

const NOW_MS = '(extract(epoch from clock_timestamp()) * 1000)::bigint';

/** `outage`: nobody accepted beats in this span. `set_back`: the database's clock went from its start to its end. */
export interface ClockGap extends Outage {
  kind: 'outage' | 'set_back';
}

/**
 * Says that this api can accept beats now. Returns the outage that ended with this beat, if there was one: then it is
 * written, with an entry in the timeline of each incident that has not ended.
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

async function closeGap(tx: Queryable): Promise<ClockGap | undefined> {
  await tx.query(`insert into service_clock (last_ms) values (${NOW_MS}) on conflict do nothing`);
  // The clock is read after the lock was had: an api that waited here finds the row that the other one moved.
  const { rows } = await tx.query<{ last_ms: number; now_ms: number }>(
    `with locked as materialized (select last_ms from service_clock for update)
     select last_ms, ${NOW_MS} as now_ms from locked`,
  );
  const [clock] = rows;
  if (!clock) throw new Error('The service clock has no row.');
  const gap = { fromMs: clock.last_ms, toMs: clock.now_ms };
  const lengthMs = gap.toMs - gap.fromMs;
  if (lengthMs < -OUTAGE_MS) return await followSetBack(tx, gap);
  const isOutage = lengthMs > OUTAGE_MS;
  if (isOutage) await insertOutage(tx, gap);
  await tx.query('update service_clock set last_ms = greatest(last_ms, $1)', [gap.toMs]);
  return isOutage ? { kind: 'outage', ...gap } : undefined;
}

/**
 * The database's clock was set back. A service clock that stays ahead would show no outage until that time comes again,
 * and an outage that lasts until then (the clock was wrong before) would put off every deadline until then.
 */
async function followSetBack(tx: Queryable, gap: Outage): Promise<ClockGap> {
  await tx.query('update service_outages set to_ms = $1 where from_ms < $1 and to_ms > $1', [gap.toMs]);
  await tx.query('update service_clock set last_ms = $1', [gap.toMs]);
  return { kind: 'set_back', ...gap };
}

async function insertOutage(tx: Queryable, { fromMs, toMs }: Outage): Promise<void> {
  await tx.query('insert into service_outages (from_ms, to_ms) values ($1, $2) on conflict do nothing', [
    fromMs,
    toMs,
  ]);
  // Entries are read in the order of their ids: this makes UUIDv7s of the outage's end, one for each incident.
  await tx.query(
    `insert into timeline_entries (project_id, incident_id, entry_id, at, type, detail)
     select i.project_id, i.incident_id,
       (lpad(to_hex($1::bigint), 12, '0') || '7' || left(h.hash, 3) || '8' || substr(h.hash, 4, 15))::uuid,
       timestamptz 'epoch' + $1::bigint * interval '1 millisecond', 'service_outage', $2
     from incidents i, md5(i.incident_id || $1::text) as h (hash)
     where i.state in ('open', 'recovering')`,
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

/** Outages that no deadline can meet any more. */
export async function deleteOutages(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from service_outages where to_ms < $1', [beforeMs]);
}
