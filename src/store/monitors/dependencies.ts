// Which monitors depend on which (docs/contract/incidents.md, "Dependencies"): `monitors.depends_on` has the ids. Every statement
// is about one project, so that Citus runs it where the project is, recursion included.
import { LONGEST_CHAIN, MOST_COUNTED } from '../../domain/dependency.ts';
import { MOST_UNDECIDED_MS } from '../../domain/held-alerts.ts';
import type { SuppressedBy } from '../../domain/incident.ts';
import { millis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { MonitorRef } from './live.ts';

/** The others of a chain are at most so many steps away. */
const MOST_STEPS = LONGEST_CHAIN - 1;

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

/** A monitor that one depends on, and is down or about to be. */
export interface FoundCause {
  monitorKey: string;
  cause?: SuppressedBy;
  /** Its deadline has just passed, and no sweeper has decided about it. */
  isUndecided: boolean;
}

/**
 * The active monitors on which these depend, directly or through others, and that are down, or whose deadline has just passed. The
 * nearest first, of those the one that is down for longest. All are of one project.
 */
export async function findCauses(
  db: Queryable,
  dependents: readonly Dependent[],
  nowMs: number,
): Promise<FoundCause[]> {
  const edges = dependents.flatMap(({ monitorKey, jurisdiction, dependsOn }) =>
    dependsOn.map((id) => ({ monitorKey, jurisdiction, id })),
  );
  const [first] = dependents;
  if (first === undefined || edges.length === 0) return [];
  const { rows } = await db.query<{
    monitor_key: string;
    monitor_id: string;
    incident_id: string | null;
    is_undecided: boolean;
  }>({
    name: 'find-causes',
    text: `with recursive chain as (
        select v.monitor_key, v.jurisdiction, v.id collate "C" as id, 1 as level
        from unnest($2::uuid[], $3::text[], $4::text[]) as v (monitor_key, jurisdiction, id)
        union
        select c.monitor_key, c.jurisdiction, d.id collate "C", c.level + 1 from chain c
        join monitors m on m.project_id = $1 and m.monitor_id = c.id and m.jurisdiction = c.jurisdiction
        cross join lateral jsonb_array_elements_text(m.depends_on) as d (id)
        where c.level < ${MOST_STEPS})
      select c.monitor_key, m.monitor_id, i.incident_id,
        coalesce(l.deadline_ms > $6 and l.deadline_ms <= $5, false) as is_undecided
      from chain c
      join monitors m on m.project_id = $1 and m.monitor_id = c.id and m.jurisdiction = c.jurisdiction
        and m.lifecycle = 'active' and m.monitor_key <> c.monitor_key
      join monitor_live l on l.project_id = $1 and l.monitor_key = m.monitor_key
      left join incidents i on i.project_id = $1 and i.monitor_key = m.monitor_key and i.state in ('open', 'recovering')
        and (i.kind <> 'rule_violation' or i.severity = 'critical')
      where i.incident_id is not null or l.deadline_ms > $6 and l.deadline_ms <= $5
      order by c.level, i.opened_at, i.incident_id`,
    values: [
      first.projectId,
      edges.map(({ monitorKey }) => monitorKey),
      edges.map(({ jurisdiction }) => jurisdiction),
      edges.map(({ id }) => id),
      nowMs,
      nowMs - MOST_UNDECIDED_MS,
    ],
  });
  return rows.map((row) => ({
    monitorKey: row.monitor_key,
    cause: row.incident_id === null ? undefined : { monitorId: row.monitor_id, incidentId: row.incident_id },
    isUndecided: row.is_undecided,
  }));
}

/** When those of the incidents ended that have, by id, ms. */
export async function findEnds(
  db: Queryable,
  projectId: string,
  incidentIds: readonly string[],
): Promise<Map<string, number>> {
  if (incidentIds.length === 0) return new Map();
  const { rows } = await db.query<{ incident_id: string; ended_ms: number }>({
    name: 'find-ends-of-incidents',
    text: `select i.incident_id, ${millis('coalesce(i.recovered_at, i.resolved_at)')} as ended_ms from incidents i
      where i.project_id = $1 and i.incident_id = any ($2::text[]) and i.state in ('recovered', 'resolved')`,
    values: [projectId, incidentIds],
  });
  return new Map(rows.map((row) => [row.incident_id, row.ended_ms]));
}

/** How many active monitors depend on each of these, directly or through others, by monitor key; at most MOST_COUNTED. */
export async function countDependents(
  db: Queryable,
  monitors: readonly Omit<Dependent, 'dependsOn'>[],
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  if (monitors.length === 0) return counts;
  const { rows: projects } = await db.query<{ project_id: string }>({
    name: 'find-projects-with-dependencies',
    text: `select p.project_id from unnest($1::uuid[]) as p (project_id)
      where exists (select from monitors m where m.project_id = p.project_id and m.depends_on is not null)`,
    values: [[...new Set(monitors.map(({ projectId }) => projectId))]],
  });
  for (const { project_id: projectId } of projects) {
    const own = monitors.filter((monitor) => monitor.projectId === projectId);
    const { rows } = await db.query<{ monitor_key: string; count: number }>({
      name: 'count-dependents',
      text: `select r.monitor_key, c.count
        from unnest($2::uuid[], $3::text[], $4::text[]) as r (monitor_key, id, jurisdiction)
        cross join lateral (
          with recursive below as (
            select r.id collate "C" as id, 0 as level
            union
            select m.monitor_id, b.level + 1 from below b
            join monitors m on m.project_id = $1 and m.jurisdiction = r.jurisdiction and m.lifecycle = 'active'
              and m.depends_on @> jsonb_build_array(b.id)
            where b.level < ${MOST_STEPS})
          select count(distinct f.id)::integer as count from (select id from below where level > 0 limit ${MOST_COUNTED}) f) c
        where c.count > 0`,
      values: [
        projectId,
        own.map(({ monitorKey }) => monitorKey),
        own.map(({ monitorId }) => monitorId),
        own.map(({ jurisdiction }) => jurisdiction),
      ],
    });
    for (const row of rows) counts.set(row.monitor_key, row.count);
  }
  return counts;
}
