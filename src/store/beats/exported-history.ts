// The history of a project's monitors as lines of text, which Postgres makes: an export has millions of them. A line says
// what presentObservation and the contract's observation say (a test holds them together). Pages go by monitor key, then
// by sequence, or by measurement and hour: none of them ever changes.

import { BEFORE_ALL, madeUntil } from '../monitors/monitors-by-key.ts';
import { fromMillis, millis, NOW_MS, wholeMillis } from '../postgres/moments.ts';
import { keptFrom, OBSERVATIONS } from '../postgres/partitions.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';

export type HistoryFormat = 'ndjson' | 'csv';

/** Of a page. */
export interface HistoryLimits {
  lines: number;
  /** Of its lines. One line alone may have more. */
  bytes: number;
  /** That are looked at. */
  monitors: number;
}

/** A monitor, and the last of its rows. */
export interface ObservationPlace {
  monitorKey: string;
  sequence: number;
}
export interface BucketPlace {
  monitorKey: string;
  measurement: string;
  startMs: number;
}

export interface HistoryPage<Place> {
  /** Without the end of the last line. */
  text: string;
  lines: number;
  /** Where the page ends; undefined where the project has none. */
  end: Place | undefined;
  hasMore: boolean;
}

/** What monitors the history is of, and how many observations of each are kept. */
export interface HistoryTerms {
  /** A monitor that was made after this moment has no history here: it may have the id of one that has. */
  madeUntilMs: number;
  /** Of a monitor: the newest ones. */
  storedObservations: number;
}

/** Of the observations that are kept now, from the first moment on, those before the second one. */
export interface HistorySpan {
  fromMs: number;
  untilMs: number;
}

// Lines are many: `to_char` of a timestamp costs half of what `isoText` of its milliseconds does.
const iso = (time: string) => `to_char((${time}) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const optional = (value: string, text: string) => `case when ${value} is not null then concat(${text}) end`;
const member = (name: string, column: string, text = column) => optional(column, `',"${name}":', ${text}`);
const time = (name: string, column: string) => optional(column, `',"${name}":"', ${iso(column)}, '"'`);
const quoted = (text: string) => `'"', replace(${text}, '"', '""'), '"'`;
const quotedJson = (column: string, absent: string) => quoted(`coalesce(${column}::text, '${absent}')`);
const json = (column: string) => `to_json(${column})`;

/** SQL: the beginning of each line of a monitor `m`. */
const headOf = (type: string) =>
  `concat('{"type":"${type}","projectId":"', m.project_id, '","monitorId":', ${json('m.monitor_id')}, ',"jurisdiction":"', m.jurisdiction, '"')`;

/** SQL: the line of a row `o` of a monitor whose lines begin with `m.head`. */
const OBSERVATION_LINES: Record<HistoryFormat, { head: string; line: string; end: string }> = {
  ndjson: {
    head: headOf('observation'),
    line: `concat(m.head, ',"sequence":', o.sequence, ',"kind":"', o.kind, '","receivedAt":"', ${iso('o.received_at')}, '"',
      ${time('observedAt', 'o.observed_at')}, ',"measurements":', coalesce(o.measurements::text, '{}'),
      ${member('durationSeconds', 'o.duration_seconds')}, ${member('exitStatus', 'o.exit_status')},
      ${member('message', 'o.message', json('o.message'))}, ${member('runId', 'o.run_id', json('o.run_id'))},
      ',"late":', case when o.late then 'true' else 'false' end, ',"violations":', coalesce(o.violations::text, '[]'), '}')`,
    end: `E'\\n'`,
  },
  csv: {
    // Ids need no quotes. The last column is the cursor: of the last line of a page alone.
    head: `concat(m.project_id, ',', m.monitor_id, ',', m.jurisdiction)`,
    line: `concat(m.head, ',', o.sequence, ',', o.kind, ',', ${iso('o.received_at')}, ',', ${iso('o.observed_at')}, ',',
      o.duration_seconds, ',', o.exit_status, ',', o.run_id, ',', case when o.late then 'true' else 'false' end, ',',
      ${quoted('o.message')}, ',', ${quotedJson('o.measurements', '{}')}, ',', ${quotedJson('o.violations', '[]')}, ',')`,
    end: `E'\\r\\n'`,
  },
};

const BUCKET_LINE = `concat(m.head, ',"measurement":', ${json('b.measurement')}, ',"startAt":"', ${iso('b.bucket_start')},
  '","endAt":"', ${iso(`b.bucket_start + interval '1 hour'`)}, '","count":', b.count,
  ${member('minimum', 'b.minimum')}, ${member('maximum', 'b.maximum')}, ${member('mean', 'b.mean')}, '}')`;

interface PageQuery {
  head: string;
  /** The parameters of `HistoryTerms`. */
  terms: { madeUntil: string; stored: string };
  line: string;
  end: string;
  /** A FROM with a WHERE: the rows of a monitor `m` after the place. */
  rows: string;
  /** The columns of their order, after the monitor. */
  keys: readonly { column: string; read?: (column: string) => string }[];
}

/**
 * $1: the project, $2: the monitor of the place. Some monitors, and for each of them its next rows, in the order of its
 * index, those after its sequence `kept_after` where they are observations: reads no more rows than `limits.lines`, but for those of other measurements. Few of them may have many bytes:
 * Postgres writes a number of jsonb without an exponent, in up to 326 of them. `last_monitor`: where more follow.
 */
function pageOf({ head, terms, line, end, rows, keys }: PageQuery, limits: HistoryLimits): string {
  const columns = keys.map(({ column }) => column);
  const aliases = keys.map((_, place) => `key${place}`);
  const named = keys.map(({ column }, place) => `${column} as key${place}`).join(', ');
  const places = keys.map(
    ({ read = same }, place) => `(select ${read(`key${place}`)} from last) as key${place}`,
  );
  const monitors = `from monitors m where m.project_id = $1 and m.monitor_key >= $2
    and ${madeUntil(terms.madeUntil)} order by m.monitor_key`;
  const order = (direction: string) =>
    ['monitor_key', ...aliases].map((column) => `${column} ${direction}`).join(', ');
  return `with found as materialized (
      select m.monitor_key, r.* from (
        select m.monitor_key, ${head} as head, ${LAST_SEQUENCE} - ${terms.stored}::bigint as kept_after ${monitors} limit ${limits.monitors}) m
      cross join lateral (select ${named}, ${line} as line ${rows} order by ${columns.join(', ')} limit ${limits.lines}) r
      order by ${order('asc')} limit ${limits.lines}),
    lines as materialized (select * from (
        select found.*, sum(octet_length(line)) over (order by ${order('asc')} rows unbounded preceding) as bytes from found) f
      where bytes <= ${limits.bytes} or bytes = octet_length(line)),
    last as (select * from lines order by ${order('desc')} limit 1)
    select (select string_agg(line, ${end} order by ${order('asc')}) from lines) as text,
      (select count(*)::integer from lines) as lines,
      (select count(*) from found) = ${limits.lines} or (select count(*) from found) > (select count(*) from lines) as is_full,
      (select monitor_key from last) as monitor_key, ${places.join(', ')},
      (select m.monitor_key ${monitors} offset ${limits.monitors - 1} limit 1) as last_monitor`;
}

const same = (column: string) => column;

interface PageRow {
  text: string | null;
  lines: number;
  /** Of lines or of bytes. */
  is_full: boolean;
  monitor_key: string | null;
  key0: never;
  key1: never;
  last_monitor: string | null;
}

/** The greatest sequence: of a monitor whose rows are all read. */
const AFTER_ALL = Number.MAX_SAFE_INTEGER;
/** After each measurement: those are of small letters. */
const AFTER_ALL_MEASUREMENTS = '~';

export interface KeptHistory {
  nowMs: number;
  /** Observations from then on are stored: a whole day. */
  storedFromMs: number;
  /** Hours before it are summed up: a whole day. */
  summedMs: number;
}

export async function readKeptHistory(db: Queryable): Promise<KeptHistory> {
  const { rows } = await db.query<KeptHistory>(
    `select ${NOW_MS} as "nowMs", ${wholeMillis(keptFrom(OBSERVATIONS))} as "storedFromMs",
       ${millis('day')} as "summedMs" from observation_sums`,
  );
  const [row] = rows;
  if (!row) throw new Error('The database does not say how far observations are summed up.');
  return row;
}

/**
 * SQL: the hours of a monitor `m` that are shown: before $5, or before the first observation that is kept of a monitor with
 * more than are kept of one; all of whole days that are summed up ($6).
 */
const HOURS_UNTIL = `select least(${fromMillis('$6')}, greatest(${fromMillis('$5')},
    case when m.kept_after > 0 then (
      select o.received_at from observations o
      where o.project_id = $1 and o.monitor_key = m.monitor_key and o.sequence > m.kept_after order by o.sequence limit 1)
    end)) as until`;

/** SQL: the newest observation of a monitor `m`. */
const LAST_SEQUENCE = `(select l.last_sequence from monitor_live l
  where l.project_id = m.project_id and l.monitor_key = m.monitor_key)`;

/** The observations of a project's monitors after a place, of each monitor so many of the newest. */
export async function listExportedObservations(
  db: Pick<Database, 'connect'>,
  projectId: string,
  after: ObservationPlace | undefined,
  query: HistorySpan & HistoryTerms & { format: HistoryFormat; limits: HistoryLimits },
): Promise<HistoryPage<ObservationPlace>> {
  const { fromMs, untilMs, madeUntilMs, storedObservations, format, limits } = query;
  const rows = `from observations o where o.project_id = $1 and o.monitor_key = m.monitor_key
    and o.sequence > greatest(case when m.monitor_key = $2 then $3::bigint else 0 end, m.kept_after)
    and o.received_at >= ${fromMillis('$4')} and o.received_at < ${fromMillis('$5')}`;
  const text = pageOf(
    {
      ...OBSERVATION_LINES[format],
      ...{ terms: { madeUntil: '$7', stored: '$6' }, rows, keys: [{ column: 'o.sequence' }] },
    },
    limits,
  );
  const { monitorKey = BEFORE_ALL, sequence = 0 } = after ?? {};
  const values = [projectId, monitorKey, sequence, fromMs, untilMs, storedObservations, madeUntilMs];
  return toPage(
    await readPage(db, { name: `export-observations-${format}-${sizeOf(limits)}`, text, values }),
    {
      of: (key, row) => ({ monitorKey: key, sequence: row.key0 }),
      after: (key) => ({ monitorKey: key, sequence: AFTER_ALL }),
    },
  );
}

/**
 * The hours of a project's monitors after a place, as JSON: those before `observationsFromMs`, and those of observations
 * that are not kept because their monitor has too many.
 */
export async function listExportedBuckets(
  db: Pick<Database, 'connect'>,
  projectId: string,
  after: BucketPlace | undefined,
  query: HistoryTerms & { observationsFromMs: number; summedMs: number; limits: HistoryLimits },
): Promise<HistoryPage<BucketPlace>> {
  const { observationsFromMs, summedMs, madeUntilMs, storedObservations, limits } = query;
  const rows = `from (${HOURS_UNTIL} offset 0) h, observation_buckets b
    where b.project_id = $1 and b.monitor_key = m.monitor_key and b.count > 0 and b.bucket_start < h.until
    and (b.measurement, b.bucket_start) > (case when m.monitor_key = $2 then $3 else '' end,
      case when m.monitor_key = $2 then ${fromMillis('$4')} else to_timestamp(0) end)`;
  const text = pageOf(
    {
      ...{ head: headOf('observation_bucket'), line: BUCKET_LINE, end: OBSERVATION_LINES.ndjson.end },
      ...{ terms: { madeUntil: '$7', stored: '$8' }, rows },
      keys: [{ column: 'b.measurement' }, { column: 'b.bucket_start', read: millis }],
    },
    limits,
  );
  const { monitorKey = BEFORE_ALL, measurement = '', startMs = 0 } = after ?? {};
  const values = [
    ...[projectId, monitorKey, measurement, startMs],
    ...[observationsFromMs, summedMs, madeUntilMs, storedObservations],
  ];
  return toPage(await readPage(db, { name: `export-buckets-${sizeOf(limits)}`, text, values }), {
    of: (key, row) => ({ monitorKey: key, measurement: row.key0, startMs: row.key1 }),
    after: (key) => ({ monitorKey: key, measurement: AFTER_ALL_MEASUREMENTS, startMs: 0 }),
  });
}

/** The text of a named statement is one. */
const sizeOf = ({ lines, bytes, monitors }: HistoryLimits) => `${lines}-${bytes}-${monitors}`;

/**
 * Rows are read in the order of their index, and no more of them than the page has. Postgres knows neither the project nor
 * the span when it plans: it would expect few rows of a monitor, and sort all that there are.
 */
const IN_ORDER = `set local jit = off; ${['seqscan', 'bitmapscan', 'sort'].map((way) => `set local enable_${way} = off`).join('; ')}`;

async function readPage(
  db: Pick<Database, 'connect'>,
  query: { name: string; text: string; values: unknown[] },
): Promise<PageRow> {
  const row = await inTransaction(db, async (tx) => {
    await tx.query(IN_ORDER);
    return (await tx.query<PageRow>(query)).rows[0];
  });
  if (!row) throw new Error('The database answered without a page.');
  return row;
}

/** A page that is not full has read all of its monitors. */
function toPage<Place>(
  row: PageRow,
  place: { of: (monitorKey: string, row: PageRow) => Place; after: (monitorKey: string) => Place },
): HistoryPage<Place> {
  const { text, lines, is_full: isFull, monitor_key: monitorKey, last_monitor: lastMonitor } = row;
  const last = monitorKey === null ? undefined : place.of(monitorKey, row);
  const end = isFull || lastMonitor === null ? last : place.after(lastMonitor);
  return { text: text ?? '', lines, end, hasMore: isFull || lastMonitor !== null };
}
