// The observations that a draft of a rule is replayed over: a range of sequences that is fixed when the draft is created.
import type { BeatKind } from '../../domain/beat.ts';
import type { FrozenWindow } from '../../domain/draft.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

/** What of a monitor's observations may be in a window. */
export interface WindowBounds {
  /** Inclusive. */
  fromMs: number;
  /** Inclusive. */
  fromSequence: number;
  limit: number;
}

/** The newest observations, of every kind, up to `limit`. Call it under the lock of the live row, at its moment. */
export async function findNewestWindow(
  tx: Queryable,
  ref: MonitorRef,
  { fromMs, fromSequence, limit }: WindowBounds,
  frozenMs: number,
): Promise<FrozenWindow> {
  const { rows } = await tx.query<{ count: number } & Required<FrozenWindow>['range']>({
    name: 'find-newest-window',
    text: `select count(*)::integer as count, min(sequence) as "fromSequence", max(sequence) as "throughSequence",
        ${millis('min(received_at)')} as "fromMs", ${millis('max(received_at)')} as "throughMs"
      from (
        select sequence, received_at from observations
        where project_id = $1 and monitor_key = $2 and sequence >= $3 and received_at >= ${fromMillis('$4')}
        order by sequence desc limit $5) newest`,
    values: [ref.projectId, ref.monitorKey, fromSequence, fromMs, limit],
  });
  const { count = 0, ...range } = rows[0] ?? {};
  return {
    frozenMs,
    observationCount: count,
    range: count > 0 ? (range as FrozenWindow['range']) : undefined,
  };
}

export interface WindowObservation {
  sequence: number;
  kind: BeatKind;
  /** When it was received. */
  atMs: number;
  measurements: Record<string, number>;
}

const OBSERVATION: Columns<WindowObservation> = {
  sequence: column.plain('sequence', 'bigint'),
  kind: column.plain('kind', 'text'),
  atMs: column.moment('received_at'),
  measurements: column.json('measurements', () => ({})),
};
const toObservation = rowReader(OBSERVATION);

/** The observations of a window that are still there, oldest first. */
export async function readWindow(
  db: Queryable,
  ref: MonitorRef,
  range: NonNullable<FrozenWindow['range']>,
): Promise<WindowObservation[]> {
  const { rows } = await db.query({
    name: 'read-window',
    text: `select ${sql.select(OBSERVATION, 'o')} from observations o
      where o.project_id = $1 and o.monitor_key = $2 and o.sequence between $3 and $4
        and o.received_at between ${fromMillis('$5')} and ${fromMillis('$6')}
      order by o.sequence`,
    values: [
      ref.projectId,
      ref.monitorKey,
      range.fromSequence,
      range.throughSequence,
      // The moments bound the days that are read; the sequences decide. A fraction of a ms may be rounded.
      range.fromMs - 1,
      range.throughMs + 1,
    ],
  });
  return rows.map(toObservation);
}

/** A part of a span: the next successes and others after a sequence, up to another one, oldest first. */
export interface WindowPage {
  /** Inclusive. */
  sinceMs: number;
  /** Exclusive. */
  untilMs: number;
  afterSequence: number;
  throughSequence: number;
  limit: number;
}

/** One page of the observations of a span. */
export async function readWindowPage(
  db: Queryable,
  ref: MonitorRef,
  { sinceMs, untilMs, afterSequence, throughSequence, limit }: WindowPage,
): Promise<WindowObservation[]> {
  const { rows } = await db.query({
    name: 'read-window-page',
    text: `select ${sql.select(OBSERVATION, 'o')} from observations o
      where o.project_id = $1 and o.monitor_key = $2 and o.sequence > $3 and o.sequence <= $4
        and o.received_at >= ${fromMillis('$5')} and o.received_at < ${fromMillis('$6')}
      order by o.sequence limit $7`,
    values: [ref.projectId, ref.monitorKey, afterSequence, throughSequence, sinceMs, untilMs, limit],
  });
  return rows.map(toObservation);
}
