// The history of a project's monitors as lines of text (exported-lines.ts). Pages go by monitor key, then by sequence, or by
// measurement and hour: none of them ever changes.
import { toTime } from '../../domain/timestamp.ts';
import { BEFORE_ALL } from '../monitors/monitors-by-key.ts';
import { fromMillis, millis, NOW_MS, wholeMillis } from '../postgres/moments.ts';
import { keptFrom, OBSERVATIONS } from '../postgres/partitions.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { BUCKET_LINES, type HistoryFormat, OBSERVATION_LINES } from './exported-lines.ts';
import { type HistoryLimits, type HistoryPage, readPage } from './exported-page.ts';

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

/** The observations of a project's monitors after a place. */
export async function listExportedObservations(
  db: Pick<Database, 'connect'>,
  projectId: string,
  after: ObservationPlace | undefined,
  query: HistorySpan & HistoryTerms & { format: HistoryFormat; limits: HistoryLimits },
): Promise<HistoryPage<ObservationPlace>> {
  const { fromMs, untilMs, format, limits } = query;
  const { monitorKey = BEFORE_ALL, sequence = 0 } = after ?? {};
  const statement = {
    name: `export-observations-${format}`,
    form: OBSERVATION_LINES[format],
    rows: OBSERVATIONS_AFTER,
    mayHaveRows: `m.last_sequence > ${SEQUENCE_OF_PLACE}`,
    keys: [{ column: 'o.sequence', type: 'bigint', last: 'max(r.key0)' }],
  };
  const terms = { projectId, monitorKey, ...query };
  const values = [sequence, momentOf(fromMs), momentOf(untilMs)];
  return await readPage(
    db,
    statement,
    { terms, limits, values },
    {
      of: (row) => ({ monitorKey: row.monitor_key, sequence: row.key0 }),
      after: (key) => ({ monitorKey: key, sequence: AFTER_ALL }),
    },
  );
}

/** SQL: the last sequence of a monitor `m` that was read. */
const SEQUENCE_OF_PLACE = 'case when m.monitor_key = w.monitor_key then w.key0 else 0 end';

/** SQL. As moments, not as numbers: nothing is computed for each row, and partitions of other days are not opened. */
const OBSERVATIONS_AFTER = `from observations o where o.project_id = $1 and o.monitor_key = m.monitor_key
  and o.sequence > greatest(${SEQUENCE_OF_PLACE}, m.kept_after)
  and o.received_at >= $10::timestamptz and o.received_at < $11::timestamptz`;

/** A cursor may name a moment that Postgres cannot read. */
const momentOf = (ms: number) => toTime(Math.min(ms, LAST_MS));
const LAST_MS = Date.parse('9999-12-31T00:00:00Z');

/**
 * SQL: the hours of a monitor `m` that are shown: before $11, or before the first observation that is kept of a monitor with
 * more than are kept of one; all of whole days that are summed up ($12).
 */
const HOURS_UNTIL = `select least(${fromMillis('$12')}, greatest(${fromMillis('$11')},
    case when m.kept_after > 0 then (
      select o.received_at from observations o
      where o.project_id = $1 and o.monitor_key = m.monitor_key and o.sequence > m.kept_after order by o.sequence limit 1)
    end))`;

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
  const { observationsFromMs, summedMs, limits } = query;
  const { monitorKey = BEFORE_ALL, measurement = '', startMs = 0 } = after ?? {};
  const statement = {
    name: 'export-buckets',
    form: BUCKET_LINES,
    rows: BUCKETS_AFTER,
    mayHaveRows: 'm.last_sequence > 0',
    keys: BUCKET_KEYS,
  };
  const terms = { projectId, monitorKey, ...query };
  const values = [measurement, momentOf(startMs), observationsFromMs, summedMs];
  return await readPage(
    db,
    statement,
    { terms, limits, values },
    {
      of: (row) => ({ monitorKey: row.monitor_key, measurement: row.key0, startMs: row.key1 }),
      after: (key) => ({ monitorKey: key, measurement: AFTER_ALL_MEASUREMENTS, startMs: 0 }),
    },
  );
}

const BUCKET_KEYS = [
  { column: 'b.measurement', type: 'text collate "C"', last: 'max(r.key0)' },
  { column: 'b.bucket_start', type: 'timestamptz', last: '(array_agg(r.key1))[count(*)]', read: millis },
];

/** SQL. As a value that is found once for a block: hours that are not shown are passed by in the index, and no row is read. */
const BUCKETS_AFTER = `from observation_buckets b
  where b.project_id = $1 and b.monitor_key = m.monitor_key and b.count > 0 and b.bucket_start < (${HOURS_UNTIL})
  and (b.measurement, b.bucket_start) > (case when m.monitor_key = w.monitor_key then w.key0 else '' end,
    case when m.monitor_key = w.monitor_key then w.key1 else '-infinity' end)`;
