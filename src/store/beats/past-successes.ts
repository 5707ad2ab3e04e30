// The past successes from which the states of rules are built again (docs/adr/0009). Every writer of states holds the lock of
// the monitor's live row, which has them.
import { HISTORY, type RuleObservation } from '../../domain/rules/state.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { type Bind, type Columns, column, sql, statement } from '../postgres/columns.ts';
import { inShard } from '../postgres/engine.ts';
import { fromMillis, millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

/** Whose past is read. */
export interface PastOf extends MonitorRef {
  /** The newest observation that counts. */
  lastSequence: number;
  /** The keys of measurements that are read. */
  read: readonly string[];
}

/** Observations that are looked through for successes: a monitor that logs much costs no more than others. */
const LOOKED_THROUGH = 1_000;

const PAST_OF: Columns<PastOf> = {
  ...MONITOR_REF,
  lastSequence: column.plain('last_sequence', 'bigint'),
  read: column.json('read'),
};

const FIND_SUCCESSES = statement(
  'find-past-successes',
  (bind: Bind<{ refs: readonly PastOf[]; sinceMs: number }>) => `select v.monitor_key, o.*
    from ${sql.unnest(PAST_OF, bind, ({ refs }) => refs)}
    cross join lateral (
      select o.sequence, ${millis('o.received_at')} as at_ms,
        (select jsonb_object_agg(m.key, m.value) from jsonb_each(o.measurements) m where v.read ? m.key) as measurements
      from observations o
      where o.project_id = v.project_id and o.monitor_key = v.monitor_key and o.kind = 'success'
        and o.sequence > v.last_sequence - ${LOOKED_THROUGH} and o.sequence <= v.last_sequence
        and o.received_at >= ${fromMillis(bind(({ sinceMs }) => sinceMs))}${inShard('o', bind, ({ refs }) => refs)}
      order by o.sequence desc limit ${HISTORY}) o
    order by v.monitor_key, o.sequence`,
);

/**
 * The newest successes of each monitor, by monitor key, oldest first: `HISTORY` at most, of its last thousand observations. One
 * statement. `sinceMs` bounds the days that are read.
 */
export async function findPastSuccesses(
  db: Queryable,
  refs: readonly PastOf[],
  sinceMs: number,
): Promise<Map<string, RuleObservation[]>> {
  const found = new Map<string, RuleObservation[]>(refs.map(({ monitorKey }) => [monitorKey, []]));
  if (refs.length === 0) return found;
  const { rows } = await db.query<{
    monitor_key: string;
    sequence: number;
    at_ms: number;
    measurements: Record<string, number> | null;
  }>(FIND_SUCCESSES({ refs, sinceMs }));
  for (const { monitor_key, sequence, at_ms: atMs, measurements } of rows) {
    found.get(monitor_key)?.push({ sequence, atMs, measurements: measurements ?? {} });
  }
  return found;
}
