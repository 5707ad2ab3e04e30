// A page of an export's history: one statement, whose lines come in blocks. exported-history.ts says of which rows.
import { madeUntil } from '../monitors/monitors-by-key.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Database } from '../postgres/pool.ts';
import { SET_EVERYWHERE } from '../postgres/shards.ts';
import { withSettings } from '../postgres/transaction.ts';
import type { MonitorRows } from './exported-bytes.ts';
import type { LineForm } from './exported-lines.ts';

/** Of a page. */
export interface HistoryLimits {
  lines: number;
  /** A page with about so many ends; it has at most twice as many and a line. */
  bytes: number;
  /** That are looked at. */
  monitors: number;
  /** What a line may have by those before it: so many lines are asked for at once. */
  lineBytes: number;
}

/** So many lines or fewer. */
export interface HistoryBlock<Place> {
  text: Buffer;
  lines: number;
  end: Place;
}

export interface HistoryPage<Place> {
  blocks: HistoryBlock<Place>[];
  lines: number;
  /** Of a line at its end. */
  lineBytes: number;
  /** Where the page ends; undefined where the project has none. */
  end: Place | undefined;
  hasMore: boolean;
}

/** A block has one checkpoint: the contract's MOST_BETWEEN_CHECKPOINTS. */
const LINES_OF_BLOCK = 1_000;

export interface PageKey {
  column: string;
  type: string;
  /** SQL: the key of the last of the rows `r`, which come in order. */
  last: string;
  /** SQL of what Node reads. */
  read?: (column: string) => string;
}

export interface PageQuery {
  name: string;
  form: LineForm;
  /** A FROM with a WHERE: the rows of a monitor `m`, and where it is that of `w` those after its keys (`w.key0`, …). */
  rows: string;
  /** SQL over `m` and `w`: false of a monitor that cannot have such rows. Nothing is looked for then, in no partition. */
  mayHaveRows: string;
  /** The columns of their order, after the monitor. */
  keys: readonly PageKey[];
}

/** SQL: the newest observation of a monitor `m`. */
const LAST_SEQUENCE = `(select l.last_sequence from monitor_live l
  where l.project_id = $1 and l.monitor_key = m.monitor_key)`;

/** SQL: whether the page goes on after a step of the walk. Too little room would be filled line by line. */
const HAS_ROOM = `(w.lines_left > 0 and w.bytes_left > $6::bigint / 8 and w.monitors_left > 0 and not w.is_large)`;

/** The number of the first parameter of a query's own, which are its keys: `values` of `readPage`. */
export const FIRST_KEY = 9;

/**
 * $1: the project, $2: the monitor of the place, $3: `limits.lines`, $4 and $5: HistoryTerms, $6 to $8: the other limits. It
 * walks from block to block: the next rows of the monitor, in the order of its index, of observations those after
 * `kept_after`; where it has no more, of the next one. So it reads no more rows than there may be lines, but for those of
 * other measurements, and no row is sorted, counted or kept by itself. Few rows may have many bytes: Postgres writes a number
 * of jsonb without an exponent, in up to 326 of them. A block that would make the page larger than it may be is not given.
 */
function statementOf({ form: { head, row, text }, rows, mayHaveRows, keys }: PageQuery): string {
  const list = (of: (key: PageKey, place: number) => string) => keys.map(of).join(', ');
  const order = list(({ column }) => column);
  const most = `least(${LINES_OF_BLOCK}, w.lines_left, greatest(1, w.bytes_left / $8::bigint))`;
  return `with recursive walk as (
    select $2::uuid as monitor_key, false as is_whole, ${list(({ type }, place) => `$${FIRST_KEY + place}::${type} as key${place}`)},
      null::text collate "C" as head, null::text collate "C" as text, 0::bigint as lines, 0::bigint as bytes, false as is_large,
      $3::bigint as lines_left, $6::bigint as bytes_left, $7::integer as monitors_left
    union all
    select m.monitor_key, b.lines < ${most}, ${list((_, place) => `b.key${place}`)},
      m.head collate "C", case when not b.is_large then b.text end collate "C", b.lines, b.bytes, b.is_large,
      w.lines_left - b.lines, w.bytes_left - b.bytes, w.monitors_left - 1
    from walk w
    cross join lateral (
      select m.*, m.last_sequence - $5::bigint as kept_after
      from (
        select m.monitor_key, ${head} as head, ${LAST_SEQUENCE} as last_sequence
        from monitors m where m.project_id = $1 and m.monitor_key >= w.monitor_key
          and (m.monitor_key > w.monitor_key or not w.is_whole) and ${madeUntil('$4')}
        order by m.monitor_key limit 1) m) m
    cross join lateral (
      select a.*, a.bytes > w.bytes_left + $6::bigint and a.lines > 1 as is_large
      from (
        select string_agg(r.line, E'\\n') as text, count(*) as lines,
          coalesce(octet_length(string_agg(r.line, E'\\n')), 0) + count(*) * (octet_length(m.head) + ${text.addedBytes}) as bytes,
          ${list(({ last }, place) => `${last} as key${place}`)}
        from (select ${list(({ column }, place) => `${column} as key${place}`)}, ${row} as line
          ${rows} order by ${order} limit case when ${mayHaveRows} then ${most} else 0 end) r) a
      offset 0) b
    where ${HAS_ROOM})
  select w.monitor_key, w.is_whole, ${list(({ read = same }, place) => `${read(`w.key${place}`)} as key${place}`)},
    w.head, w.text, w.lines, w.bytes, w.is_large, ${HAS_ROOM} as has_room
  from walk w where w.head is not null`;
}

const same = (column: string) => column;

/** A block of a monitor, maybe without lines. */
export interface BlockRow {
  monitor_key: string;
  /** Whether the monitor has no more. */
  is_whole: boolean;
  key0: never;
  key1: never;
  head: string;
  /** Rows. Null without lines, and of a block that is too large. */
  text: string | null;
  lines: number;
  bytes: number;
  is_large: boolean;
  /** False of the last row of a page that is full. */
  has_room: boolean;
}

/**
 * Rows are read in the order of their index, and no more of them than the page has. Postgres knows neither the project nor
 * the span when it plans: it would expect few rows of a monitor, and sort all that there are.
 */
const IN_ORDER = [
  ...[
    'jit = off',
    'plan_cache_mode = force_generic_plan',
    "timezone = 'UTC'",
    "datestyle = 'ISO'",
    'max_parallel_workers_per_gather = 0',
  ],
  ...['seqscan', 'bitmapscan', 'sort'].map((way) => `enable_${way} = off`),
]
  .map((setting) => `set local ${setting}`)
  .join('; ');

/** On Citus the machine that has the rows reads them: times are written there. */
const settings = () => (isDistributed() ? `${SET_EVERYWHERE}; ${IN_ORDER}` : IN_ORDER);

export interface PageRequest {
  /** $1, $2, $4 and $5. */
  terms: { projectId: string; monitorKey: string; madeUntilMs: number; storedObservations: number };
  limits: HistoryLimits;
  /** From FIRST_KEY on: the keys of the place, and what the query has more. */
  values: readonly unknown[];
}

/** What the statement reads. `place` says where a row ends, and where all rows of a monitor do. */
export async function readPage<Place>(
  db: Pick<Database, 'connect'>,
  query: PageQuery,
  { terms, limits, values }: PageRequest,
  place: { of: (row: BlockRow) => Place; after: (monitorKey: string) => Place },
): Promise<HistoryPage<Place>> {
  const { projectId, monitorKey, madeUntilMs, storedObservations } = terms;
  const { lines, bytes, monitors, lineBytes } = limits;
  const statement = {
    name: query.name,
    text: statementOf(query),
    values: [
      ...[projectId, monitorKey, lines, madeUntilMs, storedObservations, bytes, monitors],
      ...[Math.max(1, Math.ceil(lineBytes)), ...values],
    ],
  };
  const found = await withSettings(db, settings(), async (tx) => (await tx.query<BlockRow>(statement)).rows);
  const large = found.find(({ is_large: isLarge }) => isLarge);
  const given = found.filter(({ is_large: isLarge }) => !isLarge);
  const sizes = large ?? found.findLast(({ lines: has }) => has > 0);
  const nextLineBytes = sizes ? sizes.bytes / sizes.lines : lineBytes;
  const last = given.at(-1);
  // Its lines were too many for their bytes: fewer of them.
  if (!last && large)
    return await readPage(
      db,
      query,
      { terms, limits: { ...limits, lineBytes: nextLineBytes }, values },
      place,
    );
  return {
    blocks: blocksOf(given, query.form, place.of),
    lines: given.reduce((sum, one) => sum + one.lines, 0),
    lineBytes: nextLineBytes,
    end: last && (last.is_whole ? place.after(last.monitor_key) : place.of(last)),
    hasMore: found.at(-1)?.has_room === false,
  };
}

/** Those that follow each other and have few lines are one. */
function blocksOf<Place>(
  found: readonly BlockRow[],
  form: LineForm,
  placeOf: (row: BlockRow) => Place,
): HistoryBlock<Place>[] {
  const blocks: { monitors: MonitorRows[]; lines: number; last: BlockRow }[] = [];
  for (const row of found) {
    const { head, text, lines } = row;
    if (text === null) continue;
    const before = blocks.at(-1);
    if (before && before.lines + lines <= LINES_OF_BLOCK) {
      before.monitors.push({ head, text, lines });
      before.lines += lines;
      before.last = row;
    } else blocks.push({ monitors: [{ head, text, lines }], lines, last: row });
  }
  return blocks.map(({ monitors, lines, last }) => ({
    text: form.text.of(monitors),
    lines,
    end: placeOf(last),
  }));
}
