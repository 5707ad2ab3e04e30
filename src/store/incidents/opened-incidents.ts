// Incidents that open. Ten thousand may do so at one instant: what all of them have in common is no array of the statement.
import type { Incident, IncidentEvent } from '../../domain/incident.ts';
import { OUTBOX, type OutboxRow } from '../deliveries/deliveries.ts';
import { type LiveRow, updateWoken, updateWokenSql } from '../monitors/live.ts';
import { type Bind, type Columns, sql, statement } from '../postgres/columns.ts';
import { inShard, isDistributed } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { INCIDENT, INCIDENT_ROW, type IncidentRow } from './incidents.ts';

/** In which incidents differ that open at one moment. The rest is as `openIncident` makes it. */
type Cause = Pick<
  Incident,
  | 'incidentId'
  | 'kind'
  | 'measurement'
  | 'rule'
  | 'openSequence'
  | 'severity'
  | 'deadlineMs'
  | 'summary'
  | 'heldMs'
>;

/** What the first event has besides its incident. */
type FirstEvent = Pick<
  OutboxRow,
  'deliveryId' | 'createdMs' | 'endpointId' | 'endpointProjectId' | 'webhookId' | 'body'
>;

/** An incident that opens, with its event where one is sent. */
export interface OpenedIncident extends Omit<IncidentRow, 'incident'> {
  incident: Cause;
  delivery?: FirstEvent;
}

export interface Openings {
  openedMs: number;
  incidents: readonly OpenedIncident[];
  /** Live rows to write in the same statement. The caller has locked them. */
  woken?: readonly LiveRow[];
}

const { incidentId, kind, measurement, rule, openSequence, severity, deadlineMs, summary, heldMs } = INCIDENT;
const ROW: Columns<Omit<OpenedIncident, 'delivery'>> = {
  ...INCIDENT_ROW,
  incident: { incidentId, kind, measurement, rule, openSequence, severity, deadlineMs, summary, heldMs },
};
const FIRST_EVENT: Columns<FirstEvent> = {
  deliveryId: OUTBOX.deliveryId,
  createdMs: OUTBOX.createdMs,
  endpointId: OUTBOX.endpointId,
  endpointProjectId: OUTBOX.endpointProjectId,
  webhookId: OUTBOX.webhookId,
  body: OUTBOX.body,
};
const OPENED: Columns<OpenedIncident> = { ...ROW, delivery: FIRST_EVENT };
const SHARED = 'project_id, monitor_key, monitor_id, incident_id';
const EVENT: IncidentEvent = 'incident.opened';

/** A held alert is not out. */
const alertedAt = (openedAt: string) => `case when v.held_until is null then ${openedAt} end`;

/** The columns that are not named have the defaults of the table. */
function openSql(bind: Bind<Openings>): string {
  const openedAt = fromMillis(bind(({ openedMs }) => openedMs));
  return `v as materialized (select * from ${sql.unnest(OPENED, bind, ({ incidents }) => incidents)}),
    opened as (
      insert into incidents (${sql.names(ROW)}, state, last_sequence, event_sequence, opened_at, alerted_at)
      select ${sql.values(ROW)}, 'open', v.open_sequence, (v.delivery_id is not null)::integer, ${openedAt}, ${alertedAt(openedAt)}
      from v)
    insert into deliveries (${SHARED}, ${sql.names(FIRST_EVENT)}, event, sequence, next_attempt_at)
    select ${SHARED}, ${sql.values(FIRST_EVENT)}, '${EVENT}', 1, ${fromMillis('v.created_at')}
    from v where v.delivery_id is not null`;
}

/**
 * On Citus: the rows `v` at the machine of their live rows, which inserts them itself. What the coordinator copies to a machine
 * fails there without its SQLSTATE and commits in two phases, and all machines take part in the commit of a CTE that writes.
 */
const openedInShard = (
  bind: Bind<Openings>,
) => `from ${sql.unnest(OPENED, bind, ({ incidents }) => incidents)}
    join monitor_live l on l.project_id = v.project_id and l.monitor_key = v.monitor_key${inShard('l', bind, ({ incidents }) => incidents)}`;

const { projectId: _ofLiveRow, ...AT_PLACE } = ROW;
const OPEN_IN_SHARD = statement('insert-incidents-in-shard', (bind: Bind<Openings>) => {
  const openedAt = fromMillis(bind(({ openedMs }) => openedMs));
  return `insert into incidents (project_id, ${sql.names(AT_PLACE)}, state, last_sequence, event_sequence, opened_at, alerted_at)
    select l.project_id, ${sql.values(AT_PLACE)}, 'open', v.open_sequence, (v.delivery_id is not null)::integer, ${openedAt}, ${alertedAt(openedAt)}
    ${openedInShard(bind)}`;
});
const SEND_IN_SHARD = statement(
  'insert-first-events-in-shard',
  (
    bind: Bind<Openings>,
  ) => `insert into deliveries (${SHARED}, ${sql.names(FIRST_EVENT)}, event, sequence, next_attempt_at)
    select l.project_id, v.monitor_key, v.monitor_id, v.incident_id, ${sql.values(FIRST_EVENT)}, '${EVENT}', 1, ${fromMillis('v.created_at')}
    ${openedInShard(bind)} where v.delivery_id is not null`,
);

const OPEN = statement('insert-incidents', (bind: Bind<Openings>) => `with ${openSql(bind)}`);
const OPEN_AND_UPDATE = statement(
  'insert-incidents-of-woken',
  (bind: Bind<Openings>) => `with ${updateWokenSql(bind, ({ woken = [] }) => woken)}, ${openSql(bind)}`,
);

/**
 * Inserts new incidents with their first events, which are due at once, and writes `woken`, in one statement. A second
 * incident of the same cause is a unique violation while the first has not ended: the transaction fails. Arrays, because
 * ten thousand rows at one instant cost Postgres half as much as in JSON. On Citus their live rows must be there.
 */
export async function insertIncidents(tx: Queryable, openings: Openings): Promise<void> {
  const { incidents, woken = [] } = openings;
  if (incidents.length === 0) await updateWoken(tx, woken);
  else if (isDistributed()) await insertInShard(tx, openings);
  else await tx.query((woken.length === 0 ? OPEN : OPEN_AND_UPDATE)(openings));
}

async function insertInShard(tx: Queryable, openings: Openings): Promise<void> {
  const { incidents, woken = [] } = openings;
  await updateWoken(tx, woken);
  await tx.query(OPEN_IN_SHARD(openings));
  if (incidents.some(({ delivery }) => delivery)) await tx.query(SEND_IN_SHARD(openings));
}
