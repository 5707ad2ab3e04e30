// Causes of missed beats as the operators of an organization see them (docs/contract/incidents.md): what they say of them. Each
// database with monitors has its own. Lock order: the lock of the operator's causes, then their rows; nothing that locks a live row
// waits for either. monitors/seen-causes.ts reads them for alerts.
import type { NamedCause } from '../../domain/operator-cause.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readNow } from '../postgres/transaction.ts';
import type { OperatorRef } from './operator-signs.ts';

/** A monitor that an operator names, in one of its causes. */
export interface NamedMonitor extends NamedCause {
  projectId: string;
  monitorId: string;
}

/** That the operator beats. */
export interface CausedMonitor extends NamedCause {
  projectId: string;
  monitorKey: string;
}

/** Lets one change of the causes of an operator through at a time, to the end of the transaction. */
export async function lockOperatorCauses(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('operator causes ' || $1 || ' ' || $2, 0))", [
    organizationId,
    operatorId,
  ]);
}

/** Those of the monitors that exist in the organization, and that the operator beats. */
export async function findCausedMonitors(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
  named: readonly NamedMonitor[],
): Promise<CausedMonitor[]> {
  if (named.length === 0) return [];
  const { rows } = await tx.query<{ monitor_key: string; project_id: string; place: number }>({
    name: 'find-caused-monitors',
    text: `select v.place::integer as place, m.project_id, m.monitor_key
      from unnest($3::uuid[], $4::text[]) with ordinality as v (project_id, monitor_id, place)
      join projects p on p.project_id = v.project_id and p.organization_id = $1
      join monitors m on m.project_id = v.project_id and m.monitor_id = v.monitor_id and m.beaten_by = $2`,
    values: [
      organizationId,
      operatorId,
      named.map(({ projectId }) => projectId),
      named.map(({ monitorId }) => monitorId),
    ],
  });
  return rows.flatMap(({ place, project_id, monitor_key }) => {
    const { cause, object } = named[place - 1] ?? {};
    return cause && object ? [{ projectId: project_id, monitorKey: monitor_key, cause, object }] : [];
  });
}

/**
 * Replaces what the operator sees: a cause or a monitor that is named no more gets an end, and the same again changes no row.
 * The caller has called `lockOperatorCauses`. `ids`: one for each cause that may be new.
 */
export async function replaceOperatorCauses(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
  monitors: readonly CausedMonitor[],
  ids: Iterator<string>,
): Promise<void> {
  const causes = new Map(monitors.map(({ cause, object }) => [`${cause} ${object}`, { cause, object }]));
  await tx.query({
    name: 'replace-operator-causes',
    text: `with named as materialized (
        select * from unnest($4::uuid[], $5::text[], $6::text[]) as n (cause_id, cause, object)),
      known as materialized (
        select c.cause_id, c.cause, c.object from operator_causes c
        where c.organization_id = $1 and c.operator_id = $2 and c.ended_ms is null),
      seen as materialized (
        select coalesce(k.cause_id, n.cause_id) as cause_id, n.cause, n.object, k.cause_id is null as is_new
        from named n left join known k on k.cause = n.cause and k.object = n.object collate "C"),
      given as materialized (
        select g.project_id, g.monitor_key, s.cause_id
        from unnest($7::uuid[], $8::uuid[], $9::text[], $10::text[]) as g (project_id, monitor_key, cause, object)
        join seen s on s.cause = g.cause and s.object = g.object),
      ended as (
        update operator_causes c set ended_ms = $3
        where c.organization_id = $1 and c.operator_id = $2 and c.ended_ms is null
          and c.cause_id not in (select cause_id from seen)),
      begun as (
        insert into operator_causes (cause_id, organization_id, operator_id, cause, object, since_ms)
        select cause_id, $1, $2, cause, object, $3 from seen where is_new),
      recovered as (
        update caused_monitors o set ended_ms = $3
        where o.organization_id = $1 and o.operator_id = $2 and o.ended_ms is null
          and not exists (select from given g where g.project_id = o.project_id and g.monitor_key = o.monitor_key))
      insert into caused_monitors (project_id, monitor_key, organization_id, operator_id, cause_id, since_ms)
      select g.project_id, g.monitor_key, $1, $2, g.cause_id, $3 from given g
      on conflict (project_id, monitor_key, operator_id) do update
        set cause_id = excluded.cause_id, since_ms = excluded.since_ms, ended_ms = null
        where caused_monitors.cause_id <> excluded.cause_id or caused_monitors.ended_ms is not null`,
    values: [
      organizationId,
      operatorId,
      await readNow(tx),
      [...causes].map(() => ids.next().value),
      [...causes.values()].map(({ cause }) => cause),
      [...causes.values()].map(({ object }) => object),
      monitors.map(({ projectId }) => projectId),
      monitors.map(({ monitorKey }) => monitorKey),
      monitors.map(({ cause }) => cause),
      monitors.map(({ object }) => object),
    ],
  });
}
