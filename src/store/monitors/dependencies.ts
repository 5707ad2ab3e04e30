// Which monitors depend on which (docs/contract/incidents.md, "Dependencies"): `monitors.depends_on` has the ids. A statement is
// about the projects that it names, on Citus those of one shard.
import { LONGEST_CHAIN, MOST_COUNTED } from '../../domain/dependency.ts';
import { MOST_UNDECIDED_MS } from '../../domain/held-alerts.ts';
import { isDistributed } from '../postgres/engine.ts';
import { millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { MonitorRef } from './live.ts';

export interface Dependent extends MonitorRef {
  monitorId: string;
  jurisdiction: string;
  dependsOn: readonly string[];
}

export interface DependencyFacts {
  /** Ids that no monitor of the project and the jurisdiction has. */
  missing: string[];
  /** The monitor would depend on itself. */
  isCircular: boolean;
  /** How many monitors the longest chain through the monitor has; one more than LONGEST_CHAIN stands for all that are longer. */
  longestChain: number;
}

/** Lets one change of the dependencies of a project through at a time, to the end of the transaction. */
export async function lockDependencies(tx: Queryable, projectId: string): Promise<void> {
  await tx.query("select pg_advisory_xact_lock(hashtextextended('dependencies ' || $1, 0))", [projectId]);
}

/** What the monitor's dependencies would make. The caller has called `lockDependencies`. */
export async function findDependencyFacts(
  tx: Queryable,
  { projectId, monitorId, jurisdiction, dependsOn }: Omit<Dependent, 'monitorKey'>,
): Promise<DependencyFacts> {
  const { rows } = await tx.query<{
    missing: string[] | null;
    is_circular: boolean;
    above: number;
    below: number;
  }>(
    `with recursive stated as (select id collate "C" as id from unnest($4::text[]) as s (id)),
       above as (
         select id, 1 as level from stated
         union
         select d.id collate "C", a.level + 1 from above a
         join monitors m on m.project_id = $1 and m.monitor_id = a.id and m.jurisdiction = $3
         cross join lateral jsonb_array_elements_text(m.depends_on) as d (id)
         where a.level < ${LONGEST_CHAIN} and a.id <> $2),
       below as (
         select $2::text collate "C" as id, 0 as level
         union
         select m.monitor_id, b.level + 1 from below b
         join monitors m on m.project_id = $1 and m.jurisdiction = $3 and m.depends_on @> jsonb_build_array(b.id)
         where b.level < ${LONGEST_CHAIN})
     select
       (select array_agg(s.id) from stated s where not exists (
         select from monitors m where m.project_id = $1 and m.monitor_id = s.id and m.jurisdiction = $3)) as missing,
       exists (select from above where id = $2) as is_circular,
       (select max(level) from above) as above,
       (select max(level) from below) as below`,
    [projectId, monitorId, jurisdiction, dependsOn],
  );
  const [row] = rows;
  if (!row) throw new Error('The question about dependencies returned no row.');
  return {
    missing: row.missing ?? [],
    isCircular: row.is_circular,
    longestChain: Math.min(row.above + 1 + row.below, LONGEST_CHAIN + 1),
  };
}

/** A monitor that others depend on, directly or through others. */
export interface Dependency {
  projectId: string;
  jurisdiction: string;
  monitorId: string;
  dependsOn: readonly string[];
  /** It is active and down by this incident, and somebody was told of that or will be. */
  down?: { incidentId: string; openedMs: number };
  /** The newest of its incidents that have ended and of which somebody was told. */
  last?: { incidentId: string; endedMs: number };
  /** Its deadline has just passed, and no sweeper has decided about it. */
  isUndecided: boolean;
}

/** `told`: of an incident that has an alert, or is held or suppressed: then another one has, or will have. */
const TOLD = '(i.event_sequence > 0 or i.held_until is not null or i.suppressed_by is not null)';
const MAKES_DOWN = "(i.kind <> 'rule_violation' or i.severity = 'critical')";

/**
 * All monitors that these depend on, directly or through others, each once: so the cost grows with the dependencies of a project
 * and not with their paths.
 */
export async function findDependencies(
  db: Queryable,
  dependents: readonly Dependent[],
  nowMs: number,
): Promise<Dependency[]> {
  const starts = new Map(
    dependents.flatMap(({ projectId, jurisdiction, dependsOn }) =>
      dependsOn.map((id) => [`${projectId} ${jurisdiction} ${id}`, { projectId, jurisdiction, id }] as const),
    ),
  );
  if (starts.size === 0) return [];
  const edges = [...starts.values()];
  const { rows } = await db.query<DependencyRow>({
    name: 'find-dependencies',
    text: `with recursive reach as (
        select v.project_id, v.jurisdiction, v.id collate "C" as id
        from unnest($1::uuid[], $2::text[], $3::text[]) as v (project_id, jurisdiction, id)
        union
        select m.project_id, m.jurisdiction, d.id collate "C" from reach r
        join monitors m on m.project_id = r.project_id and m.monitor_id = r.id and m.jurisdiction = r.jurisdiction
          and m.project_id = any ($4::uuid[])
        cross join lateral jsonb_array_elements_text(m.depends_on) as d (id))
      select m.project_id, m.jurisdiction, m.monitor_id, m.depends_on,
        down.incident_id as down_id, down.opened_ms, last.incident_id as last_id, last.ended_ms,
        coalesce(m.lifecycle = 'active' and l.deadline_ms > $6 and l.deadline_ms <= $5, false) as is_undecided
      from reach r
      join monitors m on m.project_id = r.project_id and m.monitor_id = r.id and m.jurisdiction = r.jurisdiction
        and m.project_id = any ($4::uuid[])
      join monitor_live l on l.project_id = m.project_id and l.monitor_key = m.monitor_key
      left join lateral (
        select i.incident_id, ${millis('i.opened_at')} as opened_ms from incidents i
        where i.project_id = m.project_id and i.monitor_key = m.monitor_key and i.state in ('open', 'recovering')
          and m.lifecycle = 'active' and ${MAKES_DOWN} and ${TOLD}
        order by i.opened_at, i.incident_id limit 1) down on true
      left join lateral (
        select i.incident_id, ${millis('coalesce(i.recovered_at, i.resolved_at)')} as ended_ms from incidents i
        where i.project_id = m.project_id and i.monitor_id = m.monitor_id and i.state in ('recovered', 'resolved')
          and i.monitor_key = m.monitor_key and ${MAKES_DOWN} and ${TOLD}
        order by i.incident_id desc limit 1) last on true`,
    values: [
      edges.map(({ projectId }) => projectId),
      edges.map(({ jurisdiction }) => jurisdiction),
      edges.map(({ id }) => id),
      [...new Set(edges.map(({ projectId }) => projectId))],
      nowMs,
      nowMs - MOST_UNDECIDED_MS,
    ],
  });
  return rows.map(toDependency);
}

interface DependencyRow {
  project_id: string;
  jurisdiction: string;
  monitor_id: string;
  depends_on: string[] | null;
  down_id: string | null;
  opened_ms: number;
  last_id: string | null;
  ended_ms: number;
  is_undecided: boolean;
}

function toDependency(row: DependencyRow): Dependency {
  return {
    projectId: row.project_id,
    jurisdiction: row.jurisdiction,
    monitorId: row.monitor_id,
    dependsOn: row.depends_on ?? [],
    down: row.down_id === null ? undefined : { incidentId: row.down_id, openedMs: row.opened_ms },
    last: row.last_id === null ? undefined : { incidentId: row.last_id, endedMs: row.ended_ms },
    isUndecided: row.is_undecided,
  };
}

/** When those of the incidents ended that have, by id, ms. */
export async function findEnds(
  db: Queryable,
  incidents: readonly { projectId: string; incidentId: string }[],
): Promise<Map<string, number>> {
  if (incidents.length === 0) return new Map();
  const { rows } = await db.query<{ incident_id: string; ended_ms: number }>({
    name: 'find-ends-of-incidents',
    text: `select i.incident_id, ${millis('coalesce(i.recovered_at, i.resolved_at)')} as ended_ms
      from unnest($1::uuid[], $2::text[]) as v (project_id, incident_id)
      join incidents i on i.project_id = v.project_id and i.incident_id = v.incident_id
        and i.project_id = any ($1::uuid[])
      where i.state in ('recovered', 'resolved')`,
    values: [incidents.map(({ projectId }) => projectId), incidents.map(({ incidentId }) => incidentId)],
  });
  return new Map(rows.map((row) => [row.incident_id, row.ended_ms]));
}

/** In one batch no more are asked about: an alert must not wait for a number in its words. */
const MOST_ASKED = 20;

/**
 * How many active monitors depend on each of these, directly or through others, by monitor key; at most MOST_COUNTED. Of a batch
 * of more than MOST_ASKED monitors that others depend on, the rest is left out, and on Citus all are.
 */
export async function countDependents(
  db: Queryable,
  monitors: readonly Omit<Dependent, 'dependsOn'>[],
): Promise<Map<string, number>> {
  if (monitors.length === 0 || isDistributed()) return new Map();
  const { rows } = await db.query<{ monitor_key: string; count: number }>({
    name: 'count-dependents',
    text: `with asked as materialized (
        select r.* from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) as r (project_id, monitor_key, id, jurisdiction)
        where exists (select from monitors m where m.project_id = r.project_id and m.depends_on is not null)
          and exists (
            select from monitors m where m.depends_on @> jsonb_build_array(r.id) and m.depends_on is not null
              and m.project_id = r.project_id and m.jurisdiction = r.jurisdiction)
        limit ${MOST_ASKED})
      select r.monitor_key, c.count from asked r
      cross join lateral (
        with recursive below as (
          select r.id collate "C" as id
          union
          select m.monitor_id from below b
          join monitors m on m.project_id = r.project_id and m.jurisdiction = r.jurisdiction and m.lifecycle = 'active'
            and m.depends_on @> jsonb_build_array(b.id) and m.depends_on is not null)
        select count(*)::integer - 1 as count from (select id from below limit ${MOST_COUNTED + 1}) f) c
      where c.count > 0`,
    values: [
      monitors.map(({ projectId }) => projectId),
      monitors.map(({ monitorKey }) => monitorKey),
      monitors.map(({ monitorId }) => monitorId),
      monitors.map(({ jurisdiction }) => jurisdiction),
    ],
  });
  return new Map(rows.map((row) => [row.monitor_key, row.count]));
}
