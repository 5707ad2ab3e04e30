// Alerts of monitors that depend on others (docs/contract/incidents.md, "Dependencies"): an alert is held until it is known
// whether a monitor that it depends on is down, which has one alert for all of them. Pure: the caller reads the causes.
import { deadlineAfter } from './deadline.ts';
import {
  hasEnded,
  type Incident,
  type IncidentEvent,
  type SuppressedBy,
  type Transition,
} from './incident.ts';
import type { LiveState, Timing } from './monitor.ts';

/** How long an alert is held: two deadlines of one cause may pass in either order. */
export const HOLD_MS = 30_000;
/** How often a suppressed incident asks whether its cause has ended. */
export const RECHECK_MS = 60_000;
/** How long alerts wait for the sweeper to decide about the deadline of a cause that has passed. */
export const MOST_UNDECIDED_MS = 5 * 60_000;
const UNDECIDED_MS = 5_000;

/** What is known of the monitors that a monitor depends on, directly or through others. */
export interface Causes {
  /** The nearest one that is down, of those the one that has been for longest. */
  down?: SuppressedBy;
  /** The deadline of one has just passed, and no sweeper has decided about it yet. */
  isUndecided: boolean;
  /** Incidents that suppress those of this monitor: when they ended; absent while they are open, or where they are gone. */
  ended: ReadonlyMap<string, number>;
  /** Every incident by which a cause is down now. */
  open: ReadonlySet<string>;
}

const OPENING: ReadonlySet<IncidentEvent> = new Set(['incident.opened', 'incident.reopened']);

/** Whether nobody was told of the incident because of a dependency, or nobody is yet. */
export function isHeld({ heldMs, suppressedBy }: Pick<Incident, 'heldMs' | 'suppressedBy'>): boolean {
  return heldMs !== undefined || suppressedBy !== undefined;
}

/** Holds the alerts of what has opened, if the monitor depends on others. The caller counts the wake again. */
export function holdAlerts(
  timing: Timing,
  live: LiveState,
  transitions: readonly Transition[],
  nowMs: number,
): { live: LiveState; transitions: Transition[] } {
  if (timing.dependsOn === undefined) return { live, transitions: [...transitions] };
  const held = transitions.map((transition) => holdAlert(transition, nowMs));
  const moments = held.flatMap(({ incident }) => incident.heldMs ?? []);
  const holdMs =
    moments.length === 0 ? live.holdMs : Math.min(live.holdMs ?? Number.POSITIVE_INFINITY, ...moments);
  return { live: { ...live, holdMs }, transitions: held };
}

function holdAlert(transition: Transition, nowMs: number): Transition {
  const { incident, event } = transition;
  if (!event || !OPENING.has(event.type)) return transition;
  // No alert is out that another one would come too soon after.
  return {
    ...transition,
    event: undefined,
    incident: { ...incident, heldMs: nowMs + HOLD_MS, alertedMs: undefined },
  };
}

/**
 * What becomes of held and suppressed incidents at `nowMs`: the alert goes out, it is suppressed, or the question is put again
 * at `live.holdMs`.
 */
export function decideHeld(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  moment: { nowMs: number; causes?: Causes },
): { live: LiveState; transitions: Transition[] } {
  const { nowMs, causes } = moment;
  if (live.holdMs === undefined || live.holdMs > nowMs) return { live, transitions: [] };
  if (causes === undefined) return { live: { ...live, holdMs: nowMs + RECHECK_MS }, transitions: [] };
  const decided = incidents
    .filter((incident) => isHeld(incident) && !hasEnded(incident))
    .map((incident) => decide(timing, live, incident, { nowMs, causes }));
  const moments = decided.flatMap(({ incident }) => nextLook(incident, nowMs) ?? []);
  const holdMs = moments.length === 0 ? undefined : Math.min(...moments);
  const changed = decided.filter(({ incident, event }) => event || !incidents.includes(incident));
  return { live: { ...live, holdMs }, transitions: changed };
}

/** When the incident is looked at again; undefined where its alert is out, or where it has ended. */
export function nextLook(incident: Incident, nowMs: number): number | undefined {
  if (!isHeld(incident) || hasEnded(incident)) return undefined;
  return incident.heldMs ?? nowMs + RECHECK_MS;
}

type Moment = { nowMs: number; causes: Causes };

function decide(timing: Timing, live: LiveState, incident: Incident, moment: Moment): Transition {
  const { nowMs, causes } = moment;
  const { heldMs, suppressedBy } = incident;
  if (heldMs !== undefined && heldMs > nowMs) return unchanged(incident);
  if (heldMs === undefined && suppressedBy !== undefined) {
    if (causes.open.has(suppressedBy.incidentId)) return unchanged(incident);
    if (causes.down) return unchanged({ ...incident, suppressedBy: causes.down });
    const endedMs = causes.ended.get(suppressedBy.incidentId);
    const dueMs =
      endedMs === undefined ? nowMs : (deadlineAfter(timing, live, endedMs) ?? endedMs + timing.graceMs);
    if (dueMs > nowMs) return unchanged({ ...incident, heldMs: dueMs });
  }
  if (causes.down) return suppress(incident, causes.down, nowMs);
  if (incident.state === 'recovering') return unchanged({ ...incident, heldMs: nowMs + RECHECK_MS });
  if (causes.isUndecided) return unchanged({ ...incident, heldMs: nowMs + UNDECIDED_MS });
  return release(incident, nowMs);
}

const unchanged = (incident: Incident): Transition => ({ incident, isNew: false, entries: [] });

/** The cause has an alert of its own. */
function suppress(incident: Incident, by: SuppressedBy, nowMs: number): Transition {
  const isKnown = incident.suppressedBy !== undefined;
  const detail = { event: openingOf(incident), reason: 'dependency', ...by };
  return {
    incident: { ...incident, heldMs: undefined, suppressedBy: by },
    isNew: false,
    entries: isKnown ? [] : [{ type: 'suppressed', atMs: nowMs, detail }],
  };
}

/** The alert goes out after all. */
function release(incident: Incident, nowMs: number): Transition {
  return {
    incident: { ...incident, heldMs: undefined, suppressedBy: undefined, alertedMs: nowMs },
    isNew: false,
    entries: [],
    event: { type: openingOf(incident) },
  };
}

function openingOf({ eventSequence }: Incident): IncidentEvent {
  return eventSequence === 0 ? 'incident.opened' : 'incident.reopened';
}

/**
 * Why an event of an incident is not sent whose opening nobody was told of: `dependency`, or `held` where it came before
 * that was decided. An end takes the hold away.
 */
export function unsentReason({ incident, event }: Transition): 'dependency' | 'held' | undefined {
  if (!event || OPENING.has(event.type) || !isHeld(incident)) return undefined;
  // Its end, and who takes care of it, concern those who know of it.
  if (incident.eventSequence > 0 && event.type !== 'incident.escalated') return undefined;
  return incident.suppressedBy ? 'dependency' : 'held';
}
