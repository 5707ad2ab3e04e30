// What people do with incidents: acknowledge, resolve, write a note (docs/contract/incidents.md). An action locks the
// monitor's live row, then the incident, as every writer of incidents does. Ended states never change.
import { countOpen } from '../../domain/beat.ts';
import { startClock, withWake } from '../../domain/deadline.ts';
import {
  acknowledgeIncident as acknowledge,
  hasEnded,
  type Incident,
  resolveIncident as resolve,
  type Transition,
} from '../../domain/incident.ts';
import { type LiveState, suppression, type Timing } from '../../domain/monitor.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import {
  findIncident,
  type IncidentRow,
  insertTimelineEntries,
  type ListedIncident,
  lockIncident,
} from '../../store/incidents/incidents.ts';
import { type LiveRow, lockLive, touchLive, updateLive } from '../../store/monitors/live.ts';
import { loadWatchedMonitors, type WatchedMonitor } from '../../store/monitors/watched-monitor.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { recordTransitions } from './incident-writer.ts';

/** An incident of the project, or `not_found`. */
export async function requireIncident(
  db: Queryable,
  projectId: string,
  incidentId: string,
): Promise<ListedIncident> {
  const row = await findIncident(db, projectId, incidentId);
  if (!row) throw notFound();
  return row;
}

export interface IncidentAction {
  caller: Caller;
  incidentId: string;
  note?: string;
}

type ActionContext = Pick<ServiceContext, 'minimumIntervalSeconds'>;

/**
 * Records who takes care of it; a second acknowledgement only adds its note. Throws `conflict` for an ended incident.
 */
export async function acknowledgeIncident(
  tx: Queryable,
  context: ActionContext,
  action: IncidentAction,
  nowMs: number,
): Promise<ListedIncident> {
  const locked = await lockForAction(tx, action, nowMs);
  const { incident } = locked.row;
  const by = { actor: action.caller.actor, note: action.note };
  const transition = acknowledge(incident, by, locked.nowMs);
  if (!transition || !locked.liveRow) throw hasEndedProblem(incident);
  if (transition.entries.length === 0) await writeNote(tx, locked, action);
  else {
    await record(tx, await loadMonitor(tx, context, locked), locked, transition);
    await touchLive(tx, locked.row);
  }
  return readAgain(tx, locked);
}

/** Ends it by decision. Throws `conflict` for an ended incident. */
export async function resolveIncident(
  tx: Queryable,
  context: ActionContext,
  action: IncidentAction,
  nowMs: number,
): Promise<ListedIncident> {
  const locked = await lockForAction(tx, action, nowMs);
  const { liveRow } = locked;
  const by = { actor: action.caller.actor, note: action.note };
  const transition = resolve(locked.row.incident, by, locked.nowMs);
  if (!transition || !liveRow) throw hasEndedProblem(locked.row.incident);
  const monitor = await loadMonitor(tx, context, locked);
  const live = liveAfterEnd(monitor.timing, liveRow.live, transition, locked.nowMs);
  await record(tx, monitor, { ...locked, liveRow: { ...liveRow, live } }, transition);
  await updateLive(tx, [{ ...liveRow, live }]);
  return readAgain(tx, locked);
}

/**
 * The gap around an incident does not change the learned cadence. A silent monitor gets a new interval and grace, as
 * after a pause: closing its incident must not leave it unwatched.
 */
function liveAfterEnd(timing: Timing, live: LiveState, transition: Transition, nowMs: number): LiveState {
  const openIncidents = countOpen(live.openIncidents, [transition]);
  const after = { ...live, openIncidents, gapBroken: true };
  if (transition.incident.kind !== 'missed_deadline' || live.deadlineMs !== undefined) return after;
  const clocked = startClock(timing, after, nowMs);
  return withWake(timing, clocked, nowMs);
}

/** Writes a note into the timeline, also of an ended incident. The state does not change. */
export async function noteIncident(
  tx: Queryable,
  action: IncidentAction,
  nowMs: number,
): Promise<ListedIncident> {
  const locked = await lockForAction(tx, action, nowMs);
  await writeNote(tx, locked, action);
  return readAgain(tx, locked);
}

interface LockedIncident {
  row: IncidentRow;
  /** Absent for a deleted monitor, whose incidents have ended. */
  liveRow?: LiveRow;
  /** The database's clock, read under the locks, so that the timeline has the order of the locks. */
  nowMs: number;
}

async function lockForAction(
  tx: Queryable,
  { caller, incidentId }: IncidentAction,
  nowMs: number,
): Promise<LockedIncident> {
  const row = await requireIncident(tx, caller.projectId, incidentId);
  const live = await lockLive(tx, [row]);
  const incident = await lockIncident(tx, caller.projectId, incidentId);
  // The sweeper may have dropped it between the two statements: incidents of a deleted monitor stay for 30 days.
  if (!incident) throw notFound();
  const [liveRow] = live.rows;
  return { row: { ...row, incident }, liveRow, nowMs: liveRow ? live.nowMs : nowMs };
}

function hasEndedProblem(incident: Incident): ProblemError {
  const why = hasEnded(incident)
    ? `The incident is ${incident.state}`
    : 'The monitor of the incident is deleted';
  return new ProblemError('conflict', {
    detail: `${why}, so it cannot be acknowledged or resolved: write a note instead.`,
  });
}

async function loadMonitor(
  tx: Queryable,
  context: ActionContext,
  { row }: LockedIncident,
): Promise<WatchedMonitor> {
  const monitors = await loadWatchedMonitors(tx, [row], context.minimumIntervalSeconds * 1000);
  const monitor = monitors.get(row.monitorKey);
  // A live row is deleted together with its monitor, and it is locked here: this is a bug.
  if (!monitor) throw new Error(`The monitor ${row.monitorKey} has a live row and no configuration.`);
  return monitor;
}

async function record(
  tx: Queryable,
  monitor: WatchedMonitor,
  { liveRow, nowMs }: LockedIncident,
  transition: Transition,
): Promise<void> {
  const suppressed = suppression(monitor.timing, nowMs);
  const { lastBeatMs, deadlineMs } = liveRow?.live ?? {};
  const changed = {
    ...monitor,
    lastBeatMs,
    nextDeadlineMs: deadlineMs,
    suppressed,
    transitions: [transition],
  };
  await recordTransitions(tx, [changed], nowMs);
}

async function writeNote(
  tx: Queryable,
  { row, nowMs }: LockedIncident,
  { caller, note }: IncidentAction,
): Promise<void> {
  if (note === undefined) return;
  await insertTimelineEntries(tx, [
    {
      projectId: row.projectId,
      incidentId: row.incident.incidentId,
      entry: { type: 'note', atMs: nowMs, actor: caller.actor, note },
    },
  ]);
}

async function readAgain(tx: Queryable, { row }: LockedIncident): Promise<ListedIncident> {
  return await requireIncident(tx, row.projectId, row.incident.incidentId);
}
