// Causes of missed beats that operators see, as alerts need them: which one a monitor has, and which incident names it
// (docs/contract/incidents.md). upkeep/operator-causes.ts writes what the operators say.
import type { KnownCause } from '../../domain/operator-cause.ts';
import type { Queryable } from '../postgres/pool.ts';

/** A monitor that an operator beats, and that may have a cause. */
export interface BeatenRef {
  projectId: string;
  monitorKey: string;
  beatenBy: string;
}

/** The cause of a monitor now, or its last one, with how many monitors it concerns, or has. */
export interface KnownSeenCause extends KnownCause {
  endedMs?: number;
  monitors: number;
  /** Those of the project of the monitor. */
  monitorsOfProject: number;
}

/** By monitor key; those that have none are left out. */
export async function findSeenCauses(
  tx: Queryable,
  beaten: readonly BeatenRef[],
): Promise<Map<string, KnownSeenCause>> {
  if (beaten.length === 0) return new Map();
  const { rows } = await tx.query<{
    monitor_key: string;
    cause_id: string;
    cause: KnownCause['cause'];
    object: string;
    ended_ms: number | null;
    monitors: number;
    of_project: number;
  }>({
    name: 'find-seen-causes',
    text: `with known as materialized (
        select o.project_id, o.monitor_key, o.cause_id, o.ended_ms
        from unnest($1::uuid[], $2::uuid[], $3::text[]) as v (project_id, monitor_key, operator_id)
        join caused_monitors o on o.project_id = v.project_id and o.monitor_key = v.monitor_key
          and o.operator_id = v.operator_id collate "C"),
      counted as (
        select a.cause_id, a.project_id, count(*) as count from caused_monitors a
        join operator_causes c on c.cause_id = a.cause_id
        where a.cause_id in (select cause_id from known) and (a.ended_ms is null or c.ended_ms is not null)
        group by 1, 2)
      select k.monitor_key, c.cause_id, c.cause, c.object, k.ended_ms,
        (select sum(n.count)::integer from counted n where n.cause_id = k.cause_id) as monitors,
        (select sum(n.count)::integer from counted n where n.cause_id = k.cause_id and n.project_id = k.project_id)
          as of_project
      from known k join operator_causes c on c.cause_id = k.cause_id`,
    values: [
      beaten.map(({ projectId }) => projectId),
      beaten.map(({ monitorKey }) => monitorKey),
      beaten.map(({ beatenBy }) => beatenBy),
    ],
  });
  return new Map(
    rows.map(({ monitor_key, cause_id, cause, object, ended_ms, monitors, of_project }) => [
      monitor_key,
      {
        ...{ causeId: cause_id, cause, object, endedMs: ended_ms ?? undefined },
        // One that has left a cause which goes on counts with the others.
        ...{ monitors: Math.max(1, monitors ?? 0), monitorsOfProject: Math.max(1, of_project ?? 0) },
      },
    ]),
  );
}

/** An incident that would name a cause at an endpoint. */
export interface CauseClaim {
  causeId: string;
  endpoint: { projectId: string; endpointId: string };
  /** Alerts of one scope stand for each other. */
  scopeId: string;
  monitorKey: string;
  incidentId: string;
}

/**
 * Which of the incidents name their cause: those of the monitor that was the first of its scope at each endpoint, for all time. Of
 * two transactions at once one waits for the end of the other. They insert in one order, so that neither waits for the other in a
 * circle.
 */
export async function claimCauses(tx: Queryable, claims: readonly CauseClaim[]): Promise<Set<string>> {
  if (claims.length === 0) return new Set();
  const { rows } = await tx.query<{ incident_id: string }>({
    name: 'claim-causes',
    text: `with given as materialized (
        select * from unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::text[]) with ordinality
          as g (cause_id, endpoint_project_id, endpoint_id, scope_id, monitor_key, incident_id, place)),
      first as materialized (
        select distinct on (cause_id, endpoint_project_id, endpoint_id collate "C", scope_id) * from given
        order by cause_id, endpoint_project_id, endpoint_id collate "C", scope_id, place),
      claimed as (
        insert into cause_alerts (cause_id, endpoint_project_id, endpoint_id, scope_id, monitor_key)
        select cause_id, endpoint_project_id, endpoint_id, scope_id, monitor_key from first
        order by cause_id, endpoint_project_id, endpoint_id collate "C", scope_id
        on conflict do nothing
        returning cause_id, endpoint_project_id, endpoint_id, scope_id, monitor_key),
      naming as (
        select * from claimed
        union all
        select a.cause_id, a.endpoint_project_id, a.endpoint_id, a.scope_id, a.monitor_key from cause_alerts a
        where a.cause_id in (select cause_id from given))
      select distinct g.incident_id from given g join naming n
        on n.cause_id = g.cause_id and n.endpoint_project_id = g.endpoint_project_id
        and n.endpoint_id = g.endpoint_id collate "C" and n.scope_id = g.scope_id and n.monitor_key = g.monitor_key`,
    values: [
      claims.map(({ causeId }) => causeId),
      claims.map(({ endpoint }) => endpoint.projectId),
      claims.map(({ endpoint }) => endpoint.endpointId),
      claims.map(({ scopeId }) => scopeId),
      claims.map(({ monitorKey }) => monitorKey),
      claims.map(({ incidentId }) => incidentId),
    ],
  });
  return new Set(rows.map(({ incident_id }) => incident_id));
}
