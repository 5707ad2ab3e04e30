// Writes the outcomes of attempts on Citus (docs/adr/0012): plain statements on one shard, in the caller's transaction.
// The newest delivery of each endpoint is on every machine, and left to the caller. Lock order: deliveries in key order.
import type { DeliveryState } from '../../domain/callback.ts';
import type { NewestDelivery } from '../callbacks/callback-endpoints.ts';
import { insertTimelineEntries, type TimelineRow } from '../incidents/incidents.ts';
import { type Bind, type Columns, column, sql, statement } from '../postgres/columns.ts';
import { inShard } from '../postgres/engine.ts';
import { millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readNow } from '../postgres/transaction.ts';
import { ATTEMPT, type AttemptRow, DELIVERY } from './deliveries.ts';
import {
  assignResult,
  type DeliveryResult,
  type DeliveryResults,
  RESULT,
  type WrittenResult,
  type WrittenResults,
} from './delivery-result.ts';

const KEY = {
  projectId: RESULT.projectId,
  deliveryId: RESULT.deliveryId,
  attempt: RESULT.attempt,
};

const LOCK = statement(
  'lock-claimed-deliveries',
  (
    bind: Bind<DeliveryResults>,
  ) => `select d.project_id, d.delivery_id, d.state as before, ${millis('d.ended_at')} as ended_ms
    from ${sql.unnest(KEY, bind, ({ results }) => results)}
    join deliveries d on d.project_id = v.project_id and d.delivery_id = v.delivery_id
    where d.attempt_count = v.attempt - 1${inShard('d', bind, ({ results }) => results)}
      and (d.lease_owner = ${bind(({ owner }) => owner)} and d.state in ('pending', 'failing') or d.state = 'canceled')
    order by d.project_id, d.delivery_id
    for update of d`,
);

/** A result whose delivery is locked, and what the delivery was before. */
interface LockedResult extends DeliveryResult {
  before: DeliveryState;
  /** When it had ended, ms. */
  hadEndedMs?: number;
  nowMs: number;
}

async function lock(tx: Queryable, results: DeliveryResults): Promise<[LockedResult[], nowMs: number]> {
  const { rows } = await tx.query<{
    project_id: string;
    delivery_id: string;
    before: DeliveryState;
    ended_ms: number | null;
  }>(LOCK(results));
  // After the wait for the locks.
  const nowMs = await readNow(tx);
  const found = new Map(rows.map((row) => [`${row.project_id} ${row.delivery_id}`, row]));
  const locked = results.results.flatMap((result) => {
    const row = found.get(`${result.projectId} ${result.deliveryId}`);
    return row ? { ...result, before: row.before, hadEndedMs: row.ended_ms ?? undefined, nowMs } : [];
  });
  return [locked, nowMs];
}

const UPDATED: Columns<Omit<LockedResult, 'endpoint' | 'entry' | 'hadEndedMs'>> = {
  ...KEY,
  state: RESULT.state,
  nextAttemptInMs: RESULT.nextAttemptInMs,
  sent: RESULT.sent,
  before: column.plain('before', 'text'),
  nowMs: column.plain('now_ms', 'bigint'),
};

const UPDATE = statement(
  'write-results-in-shard',
  (bind: Bind<readonly LockedResult[]>) => `update deliveries d set ${assignResult('v')}
    from ${sql.unnest(UPDATED, bind, (rows) => rows)}
    where d.project_id = v.project_id and d.delivery_id = v.delivery_id${inShard('d', bind, (rows) => rows)}`,
);

type NewAttempt = AttemptRow & { projectId: string; deliveryId: string };

const NEW_ATTEMPT: Columns<NewAttempt> = {
  projectId: DELIVERY.projectId,
  deliveryId: DELIVERY.deliveryId,
  ...ATTEMPT,
};

const INSERT_ATTEMPTS = statement(
  'insert-attempts',
  (bind: Bind<readonly NewAttempt[]>) => `insert into delivery_attempts (${sql.names(NEW_ATTEMPT)})
    select ${sql.values(NEW_ATTEMPT)} from ${sql.unnest(NEW_ATTEMPT, bind, (rows) => rows)}`,
);

/** As `writeDeliveryResults`. It waits for deliveries that others have locked, and for no endpoint. */
export async function writeResultsInShard(tx: Queryable, results: DeliveryResults): Promise<WrittenResults> {
  const [locked, nowMs] = await lock(tx, results);
  if (locked.length > 0) await tx.query(UPDATE(locked));
  const attempts = locked.flatMap((result) => attemptOf(result) ?? []);
  if (attempts.length > 0) await tx.query(INSERT_ATTEMPTS(attempts));
  await insertTimelineEntries(
    tx,
    locked.flatMap((result) => entryOf(result) ?? []),
  );
  return { written: locked.map(toWritten), busy: [], nowMs, newest: newestOf(locked) };
}

/** The first one is in the delivery's row. */
function attemptOf({ projectId, deliveryId, attempt, sent, nowMs }: LockedResult): NewAttempt | undefined {
  if (!sent || attempt === 1) return undefined;
  const { startedInMs, statusCode, latencyMs, error } = sent;
  return { projectId, deliveryId, attempt, atMs: nowMs + startedInMs, statusCode, latencyMs, error };
}

function entryOf({ projectId, entry, before, state, nowMs }: LockedResult): TimelineRow | undefined {
  if (!entry || before === 'canceled' || state === before) return undefined;
  return { projectId, incidentId: entry.incidentId, entry: { ...entry.entry, atMs: nowMs } };
}

const ENDED: readonly string[] = ['delivered', 'exhausted', 'canceled'];

function toWritten({
  projectId,
  deliveryId,
  state,
  before,
  sent,
  nowMs,
  hadEndedMs,
}: LockedResult): WrittenResult {
  const endedMs = ENDED.includes(state) ? nowMs + (sent?.endedInMs ?? 0) : undefined;
  return {
    projectId,
    deliveryId,
    state: state === 'unchanged' || before === 'canceled' ? before : state,
    endedMs: hadEndedMs ?? endedMs,
  };
}

/** One of each endpoint. */
function newestOf(locked: readonly LockedResult[]): NewestDelivery[] {
  const newest = new Map<string, NewestDelivery>();
  const inOrder = locked.toSorted((a, b) => (a.sent?.endedInMs ?? 0) - (b.sent?.endedInMs ?? 0));
  for (const { endpoint, state, sent, nowMs } of inOrder) {
    if (!sent || state === 'unchanged') continue;
    const last = { state, atMs: nowMs + sent.endedInMs, statusCode: sent.statusCode };
    newest.set(`${endpoint.projectId} ${endpoint.endpointId}`, { ...endpoint, last });
  }
  return [...newest.values()];
}
