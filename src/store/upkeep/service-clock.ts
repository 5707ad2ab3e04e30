// The service clock, a row for each process of the role api, and the outages that it shows (docs/contract/deadlines.md).
// Every api writes its row each second; the sweepers read all of them. Lock order: the table of the clock, then
// outages, which have no other writers. domain/service-clock.ts decides.
import type { Outage } from '../../domain/monitor.ts';
import {
  type ApiClock,
  AWAY_MS,
  type ClockOutage,
  type ClockSettlement,
  GONE_MS,
  settleClocks,
} from '../../domain/service-clock.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Pool, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';

/** The database's clock, and between which moments of `performance.now()` it was read. */
export interface ClockReading {
  nowMs: number;
  askedAt: number;
  answeredAt: number;
}

/**
 * A sign of life of an api whose beats are decided up to `decidedMs`, and which were so `ageMs` ago: the earlier one
 * counts, since the database's clock may have been set back a little. Undefined, and nothing is written, if an api was
 * away, is gone or has no row: `settleServiceClock` must find out.
 */
export async function signServiceClock(
  db: Queryable,
  { apiId, decidedMs, ageMs }: { apiId: string; decidedMs: number; ageMs: number },
): Promise<ClockReading | undefined> {
  const askedAt = performance.now();
  const { rows } = await db.query<{ now_ms: number }>({
    name: 'sign-service-clock',
    text: `update service_clock c set decided_ms = least($2::bigint, n.now_ms - $3::bigint), seen_ms = n.now_ms
      from (select ${NOW_MS} as now_ms) n
      where c.api_id = $1 and not c.ended and abs(n.now_ms - c.seen_ms) <= ${AWAY_MS}
        and not exists (
          select from service_clock o
          where not o.ended and o.api_id <> $1 and o.seen_ms < n.now_ms - ${GONE_MS})
      returning n.now_ms`,
    values: [apiId, Math.floor(decidedMs), Math.ceil(ageMs)],
  });
  const [signed] = rows;
  return signed && { nowMs: signed.now_ms, askedAt, answeredAt: performance.now() };
}

/** What an api adds when it settles the clock. */
export interface OwnSign {
  decidedMs: number;
  /** An outage that it knows of. */
  lost?: ClockOutage;
}

export interface Settled extends Omit<ClockSettlement, 'clocks'> {
  reading: ClockReading;
}

/**
 * Writes the row of an api, also its first, and the outages that it finds. `sign` states what the api knows at the
 * moment of the reading. Whoever comes second finds what the first one wrote, and no outage.
 */
export async function settleServiceClock(
  pool: Pool,
  own: Pick<ApiClock, 'apiId' | 'address'>,
  sign: (reading: ClockReading) => OwnSign,
): Promise<Settled> {
  return await inTransaction(pool, async (tx) => {
    const { reading, clocks } = await lockClocks(tx);
    const settlement = settleClocks(clocks, own, reading.nowMs);
    const { decidedMs, lost } = sign(reading);
    const outages = lost ? [...settlement.outages, lost] : settlement.outages;
    if (settlement.setBackMs !== undefined) await bringBackOutages(tx, reading.nowMs);
    await writeOutages(tx, outages);
    await writeClocks(
      tx,
      settlement.clocks.map((clock) =>
        clock.apiId === own.apiId ? { ...clock, decidedMs: Math.min(clock.decidedMs, decidedMs) } : clock,
      ),
    );
    return { reading, outages, setBackMs: settlement.setBackMs };
  });
}

/**
 * Ends the row of an api that holds no beat and takes none since `decidedMs`, its last moment. False: it was away, and
 * the row stays.
 */
export async function endServiceClock(
  db: Queryable,
  { apiId, decidedMs }: { apiId: string; decidedMs: number },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `update service_clock c
     set decided_ms = least($2::bigint, n.now_ms), seen_ms = least($2::bigint, n.now_ms), ended = true
     from (select ${NOW_MS} as now_ms) n
     where c.api_id = $1 and not c.ended and abs(n.now_ms - c.seen_ms) <= ${AWAY_MS}`,
    [apiId, Math.floor(decidedMs)],
  );
  return rowCount === 1;
}

/**
 * All rows, read under a lock that keeps every other api from writing one: the first of two that find the same outage
 * writes it, and neither ends the row of the other while that one comes back.
 */
async function lockClocks(tx: Queryable): Promise<{ reading: ClockReading; clocks: ApiClock[] }> {
  await tx.query('lock table service_clock in share row exclusive mode');
  const askedAt = performance.now();
  const { rows } = await tx.query<ClockRow>(
    `select n.now_ms, c.* from (select ${NOW_MS} as now_ms) n left join service_clock c on true`,
  );
  const answeredAt = performance.now();
  const [first] = rows;
  if (!first) throw new Error('The service clock returned no time.');
  return { reading: { nowMs: first.now_ms, askedAt, answeredAt }, clocks: rows.flatMap(toClock) };
}

interface ClockRow {
  now_ms: number;
  api_id: string | null;
  address: string;
  decided_ms: number;
  seen_ms: number;
  ended: boolean;
}

function toClock({ api_id: apiId, ...row }: ClockRow): ApiClock[] {
  if (apiId === null) return [];
  return [{ apiId, address: row.address, decidedMs: row.decided_ms, seenMs: row.seen_ms, ended: row.ended }];
}

async function writeClocks(tx: Queryable, clocks: readonly ApiClock[]): Promise<void> {
  await tx.query(
    `insert into service_clock (api_id, address, decided_ms, seen_ms, ended)
     select * from unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[])
     on conflict (api_id) do update
     set decided_ms = excluded.decided_ms, seen_ms = excluded.seen_ms, ended = excluded.ended`,
    [
      clocks.map(({ apiId }) => apiId),
      clocks.map(({ address }) => address),
      clocks.map(({ decidedMs }) => Math.floor(decidedMs)),
      clocks.map(({ seenMs }) => seenMs),
      clocks.map(({ ended }) => ended),
    ],
  );
}

/**
 * An outage that goes on where another one ends makes that one longer, as long as no timeline names it: refusals that
 * come for minutes are one outage. One that lies in another one adds nothing. No wait for a row that a sweeper holds.
 */
async function writeOutages(tx: Queryable, outages: readonly ClockOutage[]): Promise<void> {
  for (const { fromMs, toMs } of outages) {
    await tx.query(
      `with longer as (
         update service_outages set to_ms = greatest(to_ms, $2)
         where outage_id = (
           select outage_id from service_outages
           where not told and told_project_id is null and from_ms <= $1 and to_ms >= $1
           order by outage_id limit 1 for update skip locked)
         returning outage_id)
       insert into service_outages (from_ms, to_ms)
       select $1, $2
       where not exists (select from longer)
         and not exists (select from service_outages where to_ms >= $2 and from_ms <= $1)`,
      [Math.floor(fromMs), Math.ceil(toMs)],
    );
  }
}

/** An outage up to a time at which the clock was wrong would put off every deadline until that time comes again. */
async function bringBackOutages(tx: Queryable, nowMs: number): Promise<void> {
  await tx.query('delete from service_outages where to_ms > $1 and from_ms >= $1', [nowMs]);
  await tx.query('update service_outages set to_ms = $1 where to_ms > $1', [nowMs]);
}

/** Outages that ended after `sinceMs`, oldest first. */
export async function readOutages(db: Queryable, sinceMs: number): Promise<Outage[]> {
  const { rows } = await db.query<{ from_ms: number; to_ms: number }>(
    'select from_ms, to_ms from service_outages where to_ms > $1 order by to_ms, from_ms',
    [sinceMs],
  );
  return rows.map((row) => ({ fromMs: row.from_ms, toMs: row.to_ms }));
}

/** Deletes outages that can no longer move a deadline. */
export async function deleteOutages(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from service_outages where to_ms < $1', [beforeMs]);
}
