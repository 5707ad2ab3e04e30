// The statement that sums up a piece of observations by hours (observation-pieces.ts), and counts them for the month. It
// adds to what an hour has: of a monitor with very many observations several pieces have parts of an hour.
import { BEAT_GAP } from '../../domain/series.ts';
import { addToSums, COUNTED, GAP_SECONDS, lastBeatBefore, sumUp } from '../beats/observation-sums.ts';
import { isDistributed, ofProject } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { addUsage } from '../tenancy/usage.ts';
import { FIRST, type Piece, sequenceBefore } from './observation-pieces.ts';

/** docs/contract/beats.md. Of a monitor, beside those that it has rules for. */
export const MOST_MEASUREMENTS = 64;

const BY_SCAN = `set local enable_seqscan = on; set local enable_hashjoin = on; set local enable_nestloop = off;
  set local work_mem = '64MB'`;

/** Else Postgres would compute a value for each of its uses. */
const ONCE = 'offset 0';

/** On Citus a piece is of one project, that of its last monitor. */
const PROJECT = '$3';

const before = () =>
  lastBeatBefore(
    { projectId: isDistributed() ? PROJECT : 'lined.project_id', monitorKey: 'lined.monitor_key' },
    { at: fromMillis('$6'), near: fromMillis('$5') },
  );

const COUNT_BEATS = addUsage({
  from: 'beats',
  projectId: 'project_id',
  at: 'bucket_start',
  dimension: 'beats',
  value: 'count(*)',
});
/** On Citus a statement of its own: all machines take part in the commit of a CTE that writes. */
const USED = `, used as (${COUNT_BEATS})`;

/** By `>=` the last monitor alone. */
type From = '>' | '>=';

const beatsOfPiece = (sign: From) => `stretch as materialized (
    select project_id, monitor_key, ${sequenceBefore(fromMillis('$5'), 'monitors', PROJECT)} as sequence
    from monitors where (project_id, monitor_key) ${sign} ($1, $2) and (project_id, monitor_key) <= ($3, $4)${ofProject('monitors', PROJECT)}),
  beats as materialized (
    select s.project_id, s.monitor_key, o.sequence, o.received_at, o.${COUNTED} as counts, o.measurements,
      date_trunc('hour', o.received_at, 'UTC') as bucket_start
    from stretch s join observations o on o.monitor_key = s.monitor_key and o.sequence > s.sequence
    where o.received_at >= ${fromMillis('$5')} and o.received_at < ${fromMillis('$6')}${ofProject('o', PROJECT)}
      and o.sequence > $7 and o.sequence <= $8)`;

// Each hour with an observation has a row of gaps, which says where the next one begins.
const sumUpMonitors = (sign: From) => `with ${beatsOfPiece(sign)},
  lined as (
    select project_id, monitor_key, sequence, received_at, counts, bucket_start,
      lag(received_at) over (partition by monitor_key, counts order by sequence) as of_piece
    from beats),
  gaps as (
    select *, case when counts then coalesce(of_piece, ${before()}) end as before from lined ${ONCE}),
  numbers as (
    select project_id, monitor_key, key, bucket_start, text::numeric as value
    from beats, jsonb_each_text(measurements) as measured (key, text) where measurements is not null ${ONCE}),
  measured as (
    select project_id, monitor_key, key, bucket_start, ${sumUp('value')} from numbers group by 1, 2, 3, 4),
  totals as (
    select *, sum(count) over (partition by monitor_key, key) as total,
      key = any($9::text[]) or exists (select from monitors m where m.project_id = measured.project_id${ofProject('m', PROJECT)}
        and m.monitor_key = measured.monitor_key and m.measurements ? measured.key) as is_known
    from measured),
  ranked as (
    select *, dense_rank() over (partition by monitor_key, is_known order by total desc, key) as place from totals)${isDistributed() ? '' : USED}
  insert into observation_buckets as b
    (project_id, monitor_key, measurement, bucket_start, count, minimum, maximum, mean, last_at, first_sequence)
  select project_id, monitor_key, '${BEAT_GAP}', bucket_start, ${sumUp('value')},
    max(received_at) filter (where counts), min(sequence)
  from (select *, ${GAP_SECONDS} as value from gaps ${ONCE}) g group by 1, 2, 4
  union all
  select project_id, monitor_key, key, bucket_start, count, minimum, maximum, mean, null, null
  from ranked where is_known or place <= $10
  order by 1, 2, 3, 4
  on conflict (project_id, monitor_key, measurement, bucket_start) do update set ${addToSums('b', 'excluded')},
    last_at = greatest(b.last_at, excluded.last_at), first_sequence = least(b.first_sequence, excluded.first_sequence)`;

export async function sumUpPiece(tx: Queryable, piece: Piece): Promise<void> {
  const { place, last, stretch, isScan } = piece;
  const first = stretch ? last : (place.done ?? FIRST);
  const known = stretch ? await readKnown(tx, piece) : [];
  if (isScan) await tx.query(BY_SCAN);
  const sign = stretch ? '>=' : '>';
  const beats = [
    ...[first.projectId, first.monitorKey, last.projectId, last.monitorKey, place.fromMs, place.toMs],
    ...[stretch?.from ?? 0, stretch?.to ?? Number.MAX_SAFE_INTEGER],
  ];
  await tx.query(sumUpMonitors(sign), [...beats, known, Math.max(0, MOST_MEASUREMENTS - known.length)]);
  if (isDistributed()) await tx.query(`with ${beatsOfPiece(sign)} ${COUNT_BEATS}`, beats);
}

/** What earlier parts have summed up, but for what has rules. */
async function readKnown(tx: Queryable, { place, last }: Piece): Promise<string[]> {
  const { rows } = await tx.query<{ measurement: string }>(
    `select distinct b.measurement from observation_buckets b
     join monitors m on m.project_id = b.project_id and m.monitor_key = b.monitor_key
     where b.project_id = $1 and b.monitor_key = $2 and b.measurement <> '${BEAT_GAP}'
       and not m.measurements ? b.measurement and b.bucket_start >= ${fromMillis('$3')} and b.bucket_start < ${fromMillis('$4')}`,
    [last.projectId, last.monitorKey, place.fromMs, place.toMs],
  );
  return rows.map(({ measurement }) => measurement);
}
