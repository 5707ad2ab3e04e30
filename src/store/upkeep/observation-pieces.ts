// What a step sums up (observation-hours.ts): monitors in the order of their keys with all of their observations, or a
// part of those of one monitor that has very many.
import { BEAT_GAP, type Span } from '../../domain/series.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { isDistributed, ofProject } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import { listPartitions, PARTITIONED_TABLES } from '../postgres/partitions.ts';
import type { Connection, Queryable } from '../postgres/pool.ts';

export interface PieceLimits {
  /** How many monitors a step takes. */
  monitors: number;
  /** How many observations. */
  observations: number;
}

/** The days under way, and the last monitor that is done. */
export interface Place extends Span {
  /** Undefined at the start. `sequence`: of a monitor that is not done, up to which observation it is. */
  done: (MonitorRef & { sequence: number | undefined }) | undefined;
}

export interface Piece {
  /** It begins there. */
  place: Place;
  /** It has the monitors up to this one. */
  last: MonitorRef;
  /** Of one monitor alone: the observations after `from`, up to `to`. */
  stretch: { from: number; to: number; isLast: boolean } | undefined;
  /** At most. */
  observations: number;
  /** It has so much of the tables that they are read as a whole, in their order. */
  isScan: boolean;
}

/** Of a monitor with more a step takes a part. */
const MOST_OF_ONE = 200_000;
/** A piece has at least so many, where there are. */
const SMALL_PIECE = 20_000;
/**
 * A page that is read in its turn costs a fourth of one out of turn, and out of turn each observation costs one. So pages
 * are read in turn for pieces of a fourth of their number; and pieces are of four times their number, where limits
 * allow: of the 75 that a page has. A day is then read 19 times in turn, in place of 75 pages out of turn for each page.
 */
const PAGE_FACTOR = 4;

/** The statements of a step find their rows by index. Costs say nothing where ways are forbidden: no compiled code. */
const BY_INDEX = `set local jit = off; ${['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin']
  .map((way) => `set local enable_${way} = off`)
  .join('; ')}`;

/** Undefined when the days are done. */
export async function findPiece(
  tx: Connection,
  place: Place,
  limits: PieceLimits,
): Promise<Piece | undefined> {
  const pages = await countPages(tx, place);
  await tx.query(BY_INDEX);
  const most = Math.min(limits.observations, Math.max(SMALL_PIECE, PAGE_FACTOR * pages));
  const piece = await findUnread(tx, place, { monitors: limits.monitors, observations: most });
  return piece && { ...piece, isScan: piece.observations * PAGE_FACTOR > pages };
}

/** Of the tables that have observations of the days. None on Citus, whose coordinator has none: pieces are small there. */
async function countPages(tx: Connection, { fromMs, toMs }: Span): Promise<number> {
  if (isDistributed()) return 0;
  const [observations] = PARTITIONED_TABLES;
  const partitions = observations ? await listPartitions(tx, observations) : [];
  const names = partitions
    .filter((partition) => partition.fromMs < toMs && partition.toMs > fromMs)
    .map(({ name }) => name);
  const { rows } = await tx.query<{ pages: number }>(
    `select coalesce(sum(pg_relation_size(to_regclass(name))), 0)::bigint / current_setting('block_size')::bigint as pages
     from unnest($1::text[]) as name`,
    [[...names, 'observations_default']],
  );
  return rows[0]?.pages ?? 0;
}

async function findUnread(
  tx: Queryable,
  place: Place,
  limits: PieceLimits,
): Promise<Omit<Piece, 'isScan'> | undefined> {
  const { done } = place;
  const most = Math.min(limits.observations, MOST_OF_ONE);
  if (done?.sequence !== undefined) {
    const { projectId } = done;
    const [load] = await readLoads(tx, place, { sign: '=', ref: done, projectId, limit: 1 });
    if (load) return partOf(place, load, done.sequence, most);
  }
  const loads = await findLoads(tx, place, limits);
  const [first] = loads;
  if (!first) return undefined;
  if (first.observations > most) return partOf(place, first, first.from, most);
  const taken = loads.slice(0, countWithin(loads, limits.observations));
  const observations = taken.reduce((sum, load) => sum + load.observations, 0);
  return { place, last: taken.at(-1) ?? first, stretch: undefined, observations };
}

function partOf(place: Place, load: Load, from: number, most: number): Omit<Piece, 'isScan'> {
  const end = load.from + load.observations;
  const to = Math.min(from + most, end);
  return { place, last: load, stretch: { from, to, isLast: to >= end }, observations: to - from };
}

/** A monitor, and how many observations of the days it has at most, after `from`: sequences have no gaps. */
interface Load extends MonitorRef {
  from: number;
  observations: number;
}

/** How many of the first ones make a piece: none of them has very many. */
function countWithin(loads: readonly Load[], most: number): number {
  let sum = 0;
  const end = loads.findIndex(({ observations }) => {
    sum += observations;
    return sum > most || observations > MOST_OF_ONE;
  });
  return end < 0 ? loads.length : end;
}

/** So many monitors are looked at first, and then each time so many times more: few have many beats, or many few. */
const FIRST_LOOK = 16;
const LOOK_FACTOR = 4;
const MOST_LOOK = 4_096;

/**
 * The next monitors: no more of them than a step may take, and few that it does not take. On Citus those of one project: all
 * rows of the step are then in one shard.
 */
async function findLoads(tx: Queryable, place: Place, limits: PieceLimits): Promise<Load[]> {
  const loads: Load[] = [];
  const projectId = isDistributed() ? await findNextProject(tx, place.done ?? FIRST) : undefined;
  if (isDistributed() && projectId === undefined) return [];
  for (
    let look = FIRST_LOOK;
    loads.length < limits.monitors;
    look = Math.min(look * LOOK_FACTOR, MOST_LOOK)
  ) {
    const limit = Math.min(look, limits.monitors - loads.length);
    const ref = loads.at(-1) ?? place.done ?? FIRST;
    const found = await readLoads(tx, place, { sign: '>', ref, projectId, limit });
    loads.push(...found);
    if (found.length < limit || countWithin(loads, limits.observations) < loads.length) break;
  }
  return loads;
}

async function findNextProject(tx: Queryable, after: MonitorRef): Promise<string | undefined> {
  const { rows } = await tx.query<{ project_id: string }>(
    `select project_id from monitors where (project_id, monitor_key) > ($1, $2)
     order by project_id, monitor_key limit 1`,
    [after.projectId, after.monitorKey],
  );
  return rows[0]?.project_id;
}

/** Before all others. */
const NO_UUID = '00000000-0000-0000-0000-000000000000';
export const FIRST: MonitorRef = { projectId: NO_UUID, monitorKey: NO_UUID };

/**
 * SQL: a sequence before all observations of a monitor since `at`. Where a table has many days those before `at` are not
 * read again. A clock that is set back by less than an hour may mix the last hour with later ones. `project`: the parameter
 * with the monitor's project, for Citus.
 */
export const sequenceBefore = (
  at: string,
  monitor: string,
  project: string,
) => `coalesce((select b.first_sequence - 1
  from observation_buckets b
  where b.project_id = ${monitor}.project_id${ofProject('b', project)} and b.monitor_key = ${monitor}.monitor_key and b.measurement = '${BEAT_GAP}'
    and b.bucket_start < ${at} and b.bucket_start >= ${at} - interval '24 hours'
  order by b.bucket_start desc limit 1), 0)`;

/** Of the monitor itself (`=`), or of the next ones after it; on Citus of the project `projectId` alone. */
async function readLoads(
  tx: Queryable,
  { fromMs, toMs }: Span,
  look: { sign: '=' | '>'; ref: MonitorRef; projectId: string | undefined; limit: number },
): Promise<Load[]> {
  const { sign, ref, projectId, limit } = look;
  const end = (order: 'asc' | 'desc') => `(select o.sequence from observations o
    where o.monitor_key = m.monitor_key${ofProject('o', '$6')} and o.sequence > m.sequence
      and o.received_at >= ${fromMillis('$4')} and o.received_at < ${fromMillis('$5')}
    order by o.sequence ${order} limit 1)`;
  const { rows } = await tx.query<{
    project_id: string;
    monitor_key: string;
    from: number;
    observations: number;
  }>(
    `select project_id, monitor_key, coalesce(first - 1, 0)::bigint as "from",
       coalesce(last - first + 1, 0)::bigint as observations
     from (
       select m.project_id, m.monitor_key, ${end('asc')} as first, ${end('desc')} as last
       from (
         select project_id, monitor_key, ${sequenceBefore(fromMillis('$4'), 'monitors', '$6')} as sequence
         from monitors where (project_id, monitor_key) ${sign} ($1, $2)${ofProject('monitors', '$6')}
         order by project_id, monitor_key limit $3) m) ends
     order by project_id, monitor_key`,
    [ref.projectId, ref.monitorKey, limit, fromMs, toMs, ...(isDistributed() ? [projectId] : [])],
  );
  return rows.map((row) => ({
    projectId: row.project_id,
    monitorKey: row.monitor_key,
    from: row.from,
    observations: row.observations,
  }));
}
