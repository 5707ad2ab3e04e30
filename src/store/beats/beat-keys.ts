// beat_keys: the answers of beats under an Idempotency-Key (docs/contract/beats.md).
import { IDEMPOTENCY_HOURS } from '../../domain/retention.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, rowReader, sql, statement } from '../postgres/columns.ts';
import { inShard } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';

/** `Answer`: the answer of the beat path, as JSON. */
export interface BeatKeyRow<Answer> extends MonitorRef {
  key: string;
  answer: Answer;
}

interface BeatKey extends MonitorRef {
  key: string;
}

const BEAT_KEY: Columns<BeatKey> = { ...MONITOR_REF, key: column.quoted('key', 'text') };
const BEAT_KEY_ROW: Columns<BeatKeyRow<unknown>> = { ...BEAT_KEY, answer: column.json('answer') };
const toBeatKeyRow = rowReader(BEAT_KEY_ROW);

const FIND_KEYS = statement(
  'find-beat-keys',
  (bind: Bind<readonly BeatKey[]>) => `select ${sql.select(BEAT_KEY_ROW, 'k')} from beat_keys k
    where (k.project_id, k.monitor_key, k.key) in (select * from ${sql.unnest(BEAT_KEY, bind, (keys) => keys)})
      and k.expires_at > clock_timestamp()${inShard('k', bind, (keys) => keys)}`,
);

/**
 * Answers of beats under an Idempotency-Key that are still kept. Call it under the lock of the live rows: no concurrent
 * duplicate is under way then.
 */
export async function findBeatKeys<Answer>(
  tx: Queryable,
  keys: readonly BeatKey[],
): Promise<BeatKeyRow<Answer>[]> {
  const { rows } = await tx.query(FIND_KEYS(keys));
  return rows.map((row) => toBeatKeyRow(row) as BeatKeyRow<Answer>);
}

const INSERT_KEYS = statement(
  'insert-beat-keys',
  (
    bind: Bind<readonly BeatKeyRow<unknown>[]>,
  ) => `insert into beat_keys (${sql.names(BEAT_KEY_ROW)}, expires_at)
    select v.*, clock_timestamp() + interval '${IDEMPOTENCY_HOURS.beats} hours'
    from ${sql.unnest(BEAT_KEY_ROW, bind, (rows) => rows)}
    on conflict (project_id, monitor_key, key) do update set answer = excluded.answer, expires_at = excluded.expires_at`,
);

/** Keeps the answers for an hour (docs/contract/beats.md); a new answer replaces an expired one. */
export async function insertBeatKeys<Answer>(
  tx: Queryable,
  rows: readonly BeatKeyRow<Answer>[],
): Promise<void> {
  if (rows.length > 0) await tx.query(INSERT_KEYS(rows));
}
