// Outages in the timelines of the incidents that were open (docs/contract/deadlines.md), in pieces: an outage is committed
// long before all timelines name it. Lock order: the outage's row, then new entries.
import { isDistributed } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Pool, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';

interface UntoldOutage {
  outageId: number;
  fromMs: number;
  toMs: number;
  /** The last monitor of the pieces before. */
  projectId: string;
  monitorKey: string;
}

const FIRST = '00000000-0000-0000-0000-000000000000';
/** Until then an outage may become longer: refusals often come again. */
const CALM_MS = 15_000;

/**
 * Writes an outage into the timelines of about `limit` incidents and remembers where it stopped, so that any process
 * can continue. False: no outage waits, or another process has it.
 */
export async function tellOutage(pool: Pool, limit: number): Promise<boolean> {
  return await inTransaction(pool, async (tx) => {
    const outage = await claimUntold(tx);
    if (!outage) return false;
    const last = await writeEntries(tx, outage, limit);
    await tx.query(
      `update service_outages set told = $2::uuid is null, told_project_id = $2, told_monitor_key = $3
       where outage_id = $1`,
      [outage.outageId, last?.project_id, last?.monitor_key],
    );
    return true;
  });
}

async function claimUntold(tx: Queryable): Promise<UntoldOutage | undefined> {
  const { rows } = await tx.query(
    `select outage_id, from_ms, to_ms, told_project_id, told_monitor_key from service_outages
     where not told and to_ms <= ${NOW_MS} - ${CALM_MS} order by outage_id limit 1 for update skip locked`,
  );
  const [row] = rows;
  return (
    row && {
      outageId: row.outage_id,
      fromMs: row.from_ms,
      toMs: row.to_ms,
      projectId: row.told_project_id ?? FIRST,
      monitorKey: row.told_monitor_key ?? FIRST,
    }
  );
}

/** The entry of each incident `p` of `from`: $4 is the end of the outage, $5 its detail, $6 its id. */
const insertEntries = (from: string) => `insert into timeline_entries
         (project_id, incident_id, entry_id, at, type, detail)
       select p.project_id, p.incident_id,
         (lpad(to_hex($4::bigint), 12, '0') || '7' || left(h.hash, 3) || '8' || substr(h.hash, 4, 15))::uuid,
         to_timestamp($4::bigint / 1000.0), 'service_outage', $5::jsonb
       from ${from} p, md5(p.incident_id || '/' || $6::bigint) as h (hash)
       where p.opened_at < to_timestamp($4::bigint / 1000.0)`;

const AFTER_LAST = `state in ('open', 'recovering') and (project_id, monitor_key) > ($1::uuid, $2::uuid)`;
const pieceOf = (columns: string, limit: string) => `select ${columns} from incidents
       where ${AFTER_LAST} order by project_id, monitor_key fetch first ${limit} rows with ties`;

const WRITE = `with piece as materialized (
       ${pieceOf('project_id, monitor_key, incident_id, opened_at', '$3')}),
     entries as (${insertEntries('piece')} on conflict do nothing)
     select project_id, monitor_key, count(*) over ()::integer as count from piece
     order by project_id desc, monitor_key desc limit 1`;

/** On Citus: the same in two statements. The incidents and their timelines are in the same shards. */
const READ_PIECE = pieceOf('project_id, monitor_key', '$3');
const WRITE_PIECE = `${insertEntries(`(select * from incidents where ${AFTER_LAST}
  and ($3::uuid is null or (project_id, monitor_key) <= ($3::uuid, $7::uuid)))`)} on conflict do nothing`;

interface LastMonitor {
  project_id: string;
  monitor_key: string;
}

/**
 * Reads incidents in the order of the index incidents_one_open; all incidents of a monitor are in one piece. Entries are
 * read in the order of their ids: these are UUIDv7s from the outage's end, one for each incident and outage, so that a
 * second write adds nothing. Returns the last monitor, or undefined after the last piece.
 */
async function writeEntries(
  tx: Queryable,
  { outageId, fromMs, toMs, projectId, monitorKey }: UntoldOutage,
  limit: number,
): Promise<LastMonitor | undefined> {
  const outage = [
    toMs,
    JSON.stringify({ from: new Date(fromMs).toISOString(), to: new Date(toMs).toISOString() }),
    outageId,
  ];
  if (isDistributed()) {
    const { rows } = await tx.query<LastMonitor>(READ_PIECE, [projectId, monitorKey, limit]);
    const last = rows.length >= limit ? rows.at(-1) : undefined;
    await tx.query(WRITE_PIECE, [projectId, monitorKey, last?.project_id, ...outage, last?.monitor_key]);
    return last;
  }
  const { rows } = await tx.query<LastMonitor & { count: number }>(WRITE, [
    projectId,
    monitorKey,
    limit,
    ...outage,
  ]);
  const [last] = rows;
  return last && last.count >= limit ? last : undefined;
}
