// Finds queues with due deliveries: a queue is what one project has to send to one endpoint. Only the organization's
// default endpoint has queues of several projects.
import type { EndpointRef } from '../callbacks/callback-endpoints.ts';
import { isDistributed } from '../postgres/engine.ts';
import { wholeMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

/** The deliveries of one project to one endpoint. */
export interface QueueRef {
  /** Of the monitors. */
  projectId: string;
  endpoint: EndpointRef;
}

export function queueKeyOf({ projectId, endpoint }: QueueRef): string {
  return `${endpoint.projectId} ${endpoint.endpointId} ${projectId}`;
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000';
const NIL = `'${NIL_UUID}'::uuid`;

// One step over the projects at whose endpoints anything waits, and one over the queues of their endpoints: to the first
// waiting delivery of the next one (index deliveries_endpoint_pending). Deliveries that wait for an earlier event of
// their incident count here too; the claim leaves them out.
const nextProject = (after: string, bound: string) => `select d.endpoint_project_id
  from deliveries d
  where d.state in ('pending', 'failing') and d.endpoint_project_id > ${after} ${bound}
  order by d.endpoint_project_id
  limit 1`;
const nextQueue = (after: string, bound: string) => `select d.endpoint_id, d.project_id, d.next_attempt_at
  from deliveries d
  where d.state in ('pending', 'failing') and d.endpoint_project_id = w.endpoint_project_id
    and (d.endpoint_id, d.project_id) > (${after}) ${bound}
  order by d.endpoint_id, d.project_id, d.next_attempt_at
  limit 1`;

// Each project with endpoints has the same part of the steps, whatever waits there: however much waits in one of them,
// the poll takes no longer, and finds what is due in the others.
const findQueues = (bound: string) => `with recursive moment as materialized (
    select clock_timestamp() as now_at),
  waiting as (
    (${nextProject(NIL, bound)})
    union all
    select n.* from waiting w cross join lateral (${nextProject('w.endpoint_project_id', bound)}) n),
  part as materialized (select greatest($4 / greatest(count(*), 1), $5::bigint) as steps from waiting)
  select w.endpoint_project_id, q.endpoint_id, q.project_id, ${wholeMillis('q.next_attempt_at')} as first_ms,
    q.next_attempt_at <= moment.now_at as is_due, q.step = part.steps as is_last
  from waiting w
  left join unnest($1::uuid[], $2::text[], $3::uuid[]) as k (endpoint_project_id, endpoint_id, project_id)
    on k.endpoint_project_id = w.endpoint_project_id
  cross join lateral (
    with recursive queues as (
      (select n.*, 1::bigint as step
       from (${nextQueue(`coalesce(k.endpoint_id, ''), coalesce(k.project_id, ${NIL})`, bound)}) n)
      union all
      select n.*, q.step + 1
      from queues q cross join lateral (${nextQueue('q.endpoint_id, q.project_id', bound)}) n)
    select * from queues limit (select steps from part)) q, part, moment
  where q.next_attempt_at <= moment.now_at or q.step = part.steps
  order by w.endpoint_project_id, q.endpoint_id, q.project_id`;

const FIND_DUE_QUEUES = findQueues('');
// The index itself has what leaves other entries out: no row is read for them. A full poll is a third slower with a bound.
const FIND_NEWLY_DUE_QUEUES = findQueues(
  `and d.next_attempt_at > (select now_at - $6 * interval '1 millisecond' from moment)
    and d.next_attempt_at <= (select now_at from moment)`,
);
/** However many projects there are. */
const LEAST_STEPS = 10;

export interface QueuePoll {
  /** Where the last poll ended in projects with more queues than their part: it goes on behind them. */
  after?: readonly QueueRef[];
  /** Queues that are looked at, over all projects with endpoints. Each has an equal part of them. */
  limit: number;
  /**
   * Only deliveries that became due in this time. An old snapshot elsewhere keeps the index entries of deliveries that
   * have ended, and a poll without a bound reads the row of each. Undefined: all.
   */
  withinMs?: number;
}

/** A queue with a due delivery. */
export interface DueQueue extends QueueRef {
  /** When the first of the deliveries that the poll looked at became due, ms. */
  firstMs: number;
}

export interface FoundQueues {
  /** In the order of the keys. */
  due: DueQueue[];
  /** Where the poll ended in projects that may have more. */
  cut: QueueRef[];
}

interface FoundRow {
  endpoint_project_id: string;
  endpoint_id: string;
  project_id: string;
  first_ms: number;
}

function toRef(row: FoundRow): QueueRef {
  return {
    projectId: row.project_id,
    endpoint: { projectId: row.endpoint_project_id, endpointId: row.endpoint_id },
  };
}

/** Queues with due deliveries. One index probe for each queue that it looks at. */
export async function findDueQueues(db: Queryable, poll: QueuePoll): Promise<FoundQueues> {
  if (isDistributed()) return await findInShards(db, poll);
  const { after = [], limit, withinMs } = poll;
  const values = [
    after.map(({ endpoint }) => endpoint.projectId),
    after.map(({ endpoint }) => endpoint.endpointId),
    after.map(({ projectId }) => projectId),
    limit,
    LEAST_STEPS,
  ];
  const { rows } = await db.query<FoundRow & { is_due: boolean; is_last: boolean }>(
    withinMs === undefined
      ? { name: 'find-due-queues', text: FIND_DUE_QUEUES, values }
      : { name: 'find-newly-due-queues', text: FIND_NEWLY_DUE_QUEUES, values: [...values, withinMs] },
  );
  return {
    due: rows.filter((row) => row.is_due).map((row) => ({ ...toRef(row), firstMs: row.first_ms })),
    cut: rows.filter((row) => row.is_last).map(toRef),
  };
}

/**
 * On Citus: all shards at once, and a statement over several shards takes no steps. Each shard reads everything that is due
 * in it. Projects have no equal parts: a poll that is full ends at a queue, and the next one goes on behind that.
 */
async function findInShards(db: Queryable, { after, limit, withinMs }: QueuePoll): Promise<FoundQueues> {
  const last = after?.at(-1);
  const bound = `and d.next_attempt_at > statement_timestamp() - $5 * interval '1 millisecond'`;
  const { rows } = await db.query<FoundRow>({
    name: withinMs === undefined ? 'find-due-queues' : 'find-newly-due-queues',
    text: `select d.endpoint_project_id, d.endpoint_id, d.project_id, ${wholeMillis('min(d.next_attempt_at)')} as first_ms
      from deliveries d
      where d.state in ('pending', 'failing') and d.next_attempt_at <= statement_timestamp()
        and (d.endpoint_project_id, d.endpoint_id, d.project_id) > ($1::uuid, $2, $3::uuid)
        ${withinMs === undefined ? '' : bound}
      group by d.endpoint_project_id, d.endpoint_id, d.project_id
      order by d.endpoint_project_id, d.endpoint_id, d.project_id
      limit $4`,
    values: [
      last?.endpoint.projectId ?? NIL_UUID,
      last?.endpoint.endpointId ?? '',
      last?.projectId ?? NIL_UUID,
      limit,
      ...(withinMs === undefined ? [] : [withinMs]),
    ],
  });
  const due = rows.map((row) => ({ ...toRef(row), firstMs: row.first_ms }));
  return { due, cut: rows.length < limit ? [] : due.slice(-1) };
}
