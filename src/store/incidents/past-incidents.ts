// The incidents of a monitor as they were at a moment (docs/contract/monitors.md): from their rows, and from the entries
// of their timelines up to then.
import { firstIdAt } from '../../domain/id.ts';
import type { Incident, Severity, TimelineEntry } from '../../domain/incident.ts';
import type { MonitorRow } from '../monitors/monitor-record.ts';
import { rowReader, sql } from '../postgres/columns.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { INCIDENT_COLUMNS, NEW_ENTRY, TIMELINE_ENTRY, toIncidentRow } from './incidents.ts';

type Monitor = Pick<MonitorRow, 'projectId' | 'monitorKey' | 'monitorId'>;

/** An incident as its row is now, but for its severity, with its timeline up to the moment. */
export interface PastIncident {
  /** `severity`: that of the moment. */
  incident: Incident;
  /** Oldest first, without the first one, `opened`. */
  entries: TimelineEntry[];
}

/** Those that had opened and had not ended, oldest first. */
export async function findIncidentsAt(
  db: Queryable,
  { projectId, monitorKey, monitorId }: Monitor,
  atMs: number,
): Promise<PastIncident[]> {
  const { rows } = await db.query({
    name: 'find-incidents-at',
    text: `select ${INCIDENT_COLUMNS} from incidents i
      where i.project_id = $1 and i.monitor_key = $2 and i.opened_at <= ${fromMillis('$3')}
        and (i.state in ('open', 'recovering')
          or i.monitor_id = $4 and i.state in ('recovered', 'resolved') and i.incident_id < $5
            and coalesce(i.recovered_at, i.resolved_at) > ${fromMillis('$3')})
      order by i.opened_at, i.incident_id`,
    values: [projectId, monitorKey, atMs, monitorId, firstIdAt('inc', atMs + 1)],
  });
  const incidents = rows.map((row) => toIncidentRow(row).incident);
  const entries = await listEntriesOf(db, projectId, incidents, atMs);
  return incidents.map((incident) => pastOf(incident, entries.get(incident.incidentId) ?? [], atMs));
}

/** `entries`: those up to the moment, and of the later ones those that made it graver. */
function pastOf(incident: Incident, entries: readonly TimelineEntry[], atMs: number): PastIncident {
  const escalated = entries.find((entry) => entry.atMs > atMs);
  const severity = (escalated?.detail?.from as Severity | undefined) ?? incident.severity;
  return { incident: { ...incident, severity }, entries: entries.filter((entry) => entry.atMs <= atMs) };
}

/** The newest end of a silence by decision, up to a moment: `resolve` starts the clock again. */
export async function findResolvedSilence(
  db: Queryable,
  { projectId, monitorKey, monitorId }: Monitor,
  untilMs: number,
): Promise<{ openedMs: number; resolvedMs: number } | undefined> {
  const { rows } = await db.query({
    name: 'find-resolved-silence',
    text: `select ${INCIDENT_COLUMNS} from incidents i
      where i.project_id = $1 and i.monitor_id = $2 and i.monitor_key = $3 and i.state = 'resolved'
        and i.kind = 'missed_deadline' and i.resolved_at <= ${fromMillis('$4')}
      order by i.incident_id desc limit 1`,
    values: [projectId, monitorId, monitorKey, untilMs],
  });
  const [incident] = rows.map((row) => toIncidentRow(row).incident);
  if (incident?.resolvedMs === undefined) return undefined;
  return { openedMs: incident.openedMs, resolvedMs: incident.resolvedMs };
}

const toEntry = rowReader<TimelineEntry & { incidentId: string }>({
  incidentId: NEW_ENTRY.incidentId,
  ...TIMELINE_ENTRY,
});

/**
 * The entries of several incidents up to a moment, and those of type `escalated` after it, by incident, oldest first and
 * without the first one.
 */
async function listEntriesOf(
  db: Queryable,
  projectId: string,
  incidents: readonly Pick<Incident, 'incidentId'>[],
  untilMs: number,
): Promise<Map<string, TimelineEntry[]>> {
  const found = new Map<string, TimelineEntry[]>();
  if (incidents.length === 0) return found;
  const { rows } = await db.query({
    name: 'list-entries-of',
    text: `select t.incident_id, ${sql.select(TIMELINE_ENTRY, 't')} from timeline_entries t
      where t.project_id = $1 and t.incident_id = any($2::text[]) and (t.at <= ${fromMillis('$3')} or t.type = 'escalated')
      order by t.at, t.entry_id`,
    values: [projectId, incidents.map(({ incidentId }) => incidentId), untilMs],
  });
  for (const row of rows) {
    const { incidentId, ...entry } = toEntry(row);
    found.set(incidentId, [...(found.get(incidentId) ?? []), entry]);
  }
  return found;
}
