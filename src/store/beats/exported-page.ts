// A page of an export's history: one statement, whose lines come in blocks. exported-history.ts says of which rows.
import { madeUntil } from '../monitors/monitors-by-key.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Database } from '../postgres/pool.ts';
import { SET_EVERYWHERE } from '../postgres/shards.ts';
import { withSettings } from '../postgres/transaction.ts';
import type { LineForm } from './exported-lines.ts';

/** Of a page. */
export interface HistoryLimits {
  lines: number;
  /** Of its lines but the last one. */
  bytes: number;
  /** That are looked at. */
  monitors: number;
}

/** So many lines or fewer. */
export interface HistoryBlock<Place> {
  text: string;
  lines: number;
  end: Place;
}

export interface HistoryPage<Place> {
  blocks: HistoryBlock<Place>[];
  lines: number;
  bytes: number;
  /** Where the page ends; undefined where the project has none. */
  end: Place | undefined;
  hasMore: boolean;
}

/** A block has one checkpoint: the contract's MOST_BETWEEN_CHECKPOINTS. */
const LINES_OF_BLOCK = 1_000;

export interface PageQuery {
  form: LineForm;
  /** A FROM with a WHERE: the rows of a monitor `m` after the place. */
  rows: string;
  /** The columns of their order, after the monitor. */
  keys: readonly { column: string; read?: (column: string) => string }[];
}

/** SQL: the newest observation of a monitor `m`. */
const LAST_SEQUENCE = `(select l.last_sequence from monitor_live l
  where l.project_id = m.project_id and l.monitor_key = m.monitor_key)`;

/**
 * $1: the project, $2: the monitor of the place, $3: `limits.lines`, $4 and $5: HistoryTerms. Some monitors, and for each of
 * them its next rows, in the order of its index, of observations those after `kept_after`: reads no more rows than there may
 * be lines, but for those of other measurements. Few of them may have many bytes: Postgres writes a number of jsonb without
 * an exponent, in up to 326 of them. Nothing is sorted but the pieces, of which there is one for each monitor and block:
 * rows come, are counted and put together in the order in which they are read.
 */
function statementOf({ form, rows, keys }: PageQuery, limits: HistoryLimits): string {
  const { head, line } = form;
  const names = keys.map((_, place) => `key${place}`);
  const last = names.at(-1);
  const firsts = names
    .slice(0, -1)
    .map((name) => `${name}, `)
    .join('');
  const selected = keys.map(({ column }, place) => `${column} as key${place}`).join(', ');
  const order = keys.map(({ column }) => column).join(', ');
  const places = keys.map(({ read = same }, place) => `${read(`p.key${place}`)} as key${place}`).join(', ');
  const bytes = 'octet_length(line) + octet_length(separator)';
  return `with page as materialized (
      select m.monitor_key, ${head} as head, concat(${SEPARATORS[form.end]}, ${head}) as separator,
        ${LAST_SEQUENCE} - $5::bigint as kept_after
      from monitors m where m.project_id = $1 and m.monitor_key >= $2 and ${madeUntil('$4')}
      order by m.monitor_key limit ${limits.monitors}),
    pieces as materialized (
      select monitor_key, ${firsts}max(${last}) as ${last}, string_agg(line, separator) as text,
        count(*)::integer as lines, max(n) as n, max(bytes) as bytes
      from (
        select r.*, row_number() over w as n, sum(${bytes}) over w as bytes
        from (
          select m.monitor_key, m.separator, r.* from page m
          cross join lateral (select ${selected}, ${line} as line ${rows} order by ${order} limit $3::bigint) r
          limit $3::bigint) r
        window w as (rows unbounded preceding)) f
      where bytes - ${bytes.replace('+', '-')} < ${limits.bytes}
      group by monitor_key, ${firsts}(n - 1) / ${LINES_OF_BLOCK}),
    whole as (select coalesce(sum(lines), 0) as lines, coalesce(max(bytes), 0) as bytes from pieces)
    select m.head, p.text, p.lines, p.n, w.bytes, p.monitor_key, ${places}, w.is_full,
      case when not w.is_full then (select monitor_key from page offset ${limits.monitors - 1} limit 1) end as last_monitor
    from (select *, lines >= $3::bigint or bytes >= ${limits.bytes} as is_full from whole) w
    left join (pieces p join page m on m.monitor_key = p.monitor_key) on true order by p.n`;
}

/** SQL of the ends of lines. */
const SEPARATORS = { '}\n': `E'}\\n'`, ',\r\n': `E',\\r\\n'` } as const;

const same = (column: string) => column;

export interface PieceRow {
  head: string;
  /** But for the head of its first line, and the end of its last one. */
  text: string;
  /** Null of a page without any. */
  lines: number | null;
  n: number;
  /** Of the page. */
  bytes: number;
  monitor_key: string;
  key0: never;
  key1: never;
  /** Of lines or of bytes. */
  is_full: boolean;
  /** Where more monitors follow: the last one that was looked at. */
  last_monitor: string | null;
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
    'max_parallel_workers_per_gather = 0',
  ],
  ...['seqscan', 'bitmapscan', 'sort'].map((way) => `enable_${way} = off`),
]
  .map((setting) => `set local ${setting}`)
  .join('; ');

/** On Citus the machine that has the rows reads them: times are written there. */
const settings = () => (isDistributed() ? `${SET_EVERYWHERE}; ${IN_ORDER}` : IN_ORDER);

/** What the statement reads. `place` says where a row ends, and where all rows of a monitor do. */
export async function readPage<Place>(
  db: Pick<Database, 'connect'>,
  {
    name,
    query,
    limits,
    values,
  }: { name: string; query: PageQuery; limits: HistoryLimits; values: unknown[] },
  place: { of: (row: PieceRow) => Place; after: (monitorKey: string) => Place },
): Promise<HistoryPage<Place>> {
  const { bytes, monitors } = limits;
  const statement = { name: `${name}-${bytes}-${monitors}`, text: statementOf(query, limits), values };
  const rows = await withSettings(db, settings(), async (tx) => (await tx.query<PieceRow>(statement)).rows);
  const [first] = rows;
  if (!first) throw new Error('The database answered without a page.');
  const pieces = first.lines === null ? [] : rows;
  const last = pieces.at(-1);
  const blocks = blocksOf(pieces, query.form.end, place.of);
  // A page that is not full has read all of its monitors.
  const isWhole = first.is_full || first.last_monitor === null;
  return {
    ...{ blocks, lines: last?.n ?? 0, bytes: first.bytes },
    end: isWhole ? last && place.of(last) : place.after(first.last_monitor ?? ''),
    hasMore: first.is_full || first.last_monitor !== null,
  };
}

/** Pieces that follow each other and are of the same block. */
function blocksOf<Place>(
  pieces: readonly PieceRow[],
  end: string,
  placeOf: (row: PieceRow) => Place,
): HistoryBlock<Place>[] {
  const blocks: HistoryBlock<Place>[] = [];
  const blockOf = ({ n }: PieceRow) => Math.floor((n - 1) / LINES_OF_BLOCK);
  for (const [place, piece] of pieces.entries()) {
    const before = pieces[place - 1];
    const block = before && blockOf(before) === blockOf(piece) ? blocks.pop() : undefined;
    blocks.push({
      text: `${block?.text ?? ''}${piece.head}${piece.text}${end}`,
      lines: (block?.lines ?? 0) + (piece.lines ?? 0),
      end: placeOf(piece),
    });
  }
  return blocks;
}
