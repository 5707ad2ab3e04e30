// Excuses: beats that the service could not take, on the live rows of their monitors (docs/contract/beats.md). The
// columns are in no index, so that the update stays on the row's page. Rows that others hold are skipped: this writer
// waits for no lock and is part of no deadlock.
import { lockFreeLive, MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, sql, statement } from '../postgres/columns.ts';
import { inShard, isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readShards } from '../postgres/shards.ts';
import { readNow } from '../postgres/transaction.ts';
import { type LaneBatch, writeLane } from './beats.ts';
import { type AddressRow, findAddresses } from './publish-addresses.ts';

/** Refused beats of one address. Ages are those of the first and the newest arrival, ms. */
export interface RefusedBeats {
  address: string;
  firstAgeMs: number;
  newestAgeMs: number;
  beats: number;
}

export interface LockedExcuses {
  /** The database's clock. */
  nowMs: number;
  /** What the locked live rows are to show. */
  rows: readonly ExcuseRow[];
  /** Addresses whose live rows somebody else holds. */
  busy: ReadonlySet<string>;
}

interface ExcuseRow extends MonitorRef {
  fromMs: number;
  toMs: number;
  beats: number;
}

const EXCUSE_ROW: Columns<ExcuseRow> = {
  ...MONITOR_REF,
  fromMs: column.plain('excused_from_ms', 'bigint'),
  toMs: column.plain('excused_ms', 'bigint'),
  beats: column.plain('excused_beats', 'integer'),
};

const LOCK_FREE = statement(
  'lock-free-live',
  (bind: Bind<readonly string[]>) => `select l.project_id, l.monitor_key from monitor_live l
    where (l.project_id, l.monitor_key) in (
      select a.project_id, a.monitor_key from publish_addresses a
      where a.address = any(${bind((addresses) => addresses)}::uuid[]))
    for update of l skip locked`,
);

/** The keys of the monitors whose rows are locked now. */
async function lockAddresses(tx: Queryable, addresses: readonly string[]): Promise<Set<string>> {
  const { rows } = await tx.query<{ monitor_key: string }>(LOCK_FREE(addresses));
  return new Set(rows.map((row) => row.monitor_key));
}

/** On Citus, where the addresses are in no shard and the rows are: those of all these monitors are in one. */
async function lockFound(tx: Queryable, found: ReadonlyMap<string, MonitorRef>): Promise<Set<string>> {
  if (found.size === 0) return new Set();
  const { rows } = await lockFreeLive(tx, [...found.values()]);
  return new Set(rows.map(({ monitorKey }) => monitorKey));
}

/** The shards of the projects of these addresses, where the database has shards. */
export async function findShardsOf(
  db: Queryable,
  addresses: readonly string[],
): Promise<Map<string, number | undefined>> {
  const known = await findAddresses(db, addresses);
  const shards = await readShards(
    db,
    [...known.values()].map(({ projectId }) => projectId),
  );
  return new Map([...known].map(([address, { projectId }]) => [address, shards.get(projectId)]));
}

/**
 * Begins a transaction and locks the live rows of these addresses that nobody holds, in one round trip of a pipelined
 * connection. Unknown addresses, and those that had ended when the beats came, are in neither part of the result.
 */
export async function lockExcused(tx: Queryable, refused: readonly RefusedBeats[]): Promise<LockedExcuses> {
  const addresses = refused.map(({ address }) => address);
  const knowing = findAddresses(tx, addresses);
  const [, nowMs, known, locked] = await Promise.all([
    tx.query('begin'),
    readNow(tx),
    knowing,
    isDistributed() ? knowing.then((found) => lockFound(tx, found)) : lockAddresses(tx, addresses),
  ]);
  const busy = new Set<string>();
  const rows = new Map<string, ExcuseRow>();
  for (const one of refused) {
    const row = known.get(one.address);
    if (!row || !workedAt(row, nowMs - one.firstAgeMs)) continue;
    if (locked.has(row.monitorKey)) addExcuse(rows, row, toMoments(one, nowMs));
    else busy.add(one.address);
  }
  return { nowMs, rows: [...rows.values()], busy };
}

function workedAt({ endsMs }: AddressRow, atMs: number): boolean {
  return endsMs === undefined || endsMs > atMs;
}

/** The database read `nowMs` after the ages were taken: the moments are not too early. */
function toMoments({ firstAgeMs, newestAgeMs, beats }: RefusedBeats, nowMs: number) {
  return { fromMs: Math.ceil(nowMs - firstAgeMs), toMs: Math.ceil(nowMs - newestAgeMs), beats };
}

/** A monitor may have several addresses. */
function addExcuse(
  rows: Map<string, ExcuseRow>,
  { projectId, monitorKey }: MonitorRef,
  { fromMs, toMs, beats }: Pick<ExcuseRow, 'fromMs' | 'toMs' | 'beats'>,
): void {
  const row = rows.get(monitorKey);
  rows.set(monitorKey, {
    projectId,
    monitorKey,
    fromMs: Math.min(row?.fromMs ?? fromMs, fromMs),
    toMs: Math.max(row?.toMs ?? toMs, toMs),
    beats: (row?.beats ?? 0) + beats,
  });
}

/**
 * Excuses move a deadline that runs, and only one that counts from before them; and whatever the clock does, they may have been
 * the end of an open run (`mayHaveLostEnd`), or beats that conform to a violated rule (`mayHaveLostBeat`). Those of an earlier clock are replaced, and so are those from before the
 * database's clock was set back, which lie ahead of it. The status feed is not told: nothing that it shows changes before a
 * sweeper looks.
 */
const WRITE = statement(
  'write-excuses',
  (bind: Bind<{ nowMs: number; rows: readonly ExcuseRow[]; lane: LaneBatch }>) => {
    const past = `l.excused_ms <= ${bind(({ nowMs }) => nowMs)}::bigint`;
    const counts = `l.excused_ms >= l.anchor_ms and ${past}`;
    return `with lane as (${writeLane(bind)})
    update monitor_live l set
      excused_from_ms = case when ${counts} then least(l.excused_from_ms, v.excused_from_ms)
        else greatest(l.anchor_ms, v.excused_from_ms) end,
      excused_ms = case when ${past} then greatest(l.excused_ms, v.excused_ms) else v.excused_ms end,
      excused_beats = case when ${counts} then l.excused_beats else 0 end + v.excused_beats
    from ${sql.unnest(EXCUSE_ROW, bind, ({ rows }) => rows)}
    where l.project_id = v.project_id and l.monitor_key = v.monitor_key${inShard('l', bind, ({ rows }) => rows)}
      and (l.open_runs is not null or l.rule_states is not null
        or (l.deadline_ms is not null and (l.anchor_ms is null or l.anchor_ms < v.excused_ms)))`;
  },
);

/** Writes the excuses and commits, in one round trip. After an error the lane's row shows whether it did. */
export async function writeExcuses(
  tx: Queryable,
  { nowMs, rows }: LockedExcuses,
  lane: LaneBatch,
): Promise<void> {
  const [, commit] = await Promise.all([tx.query(WRITE({ nowMs, rows, lane })), tx.query('commit')]);
  if (commit.command !== 'COMMIT') throw new Error('The excuses were rolled back.');
}
