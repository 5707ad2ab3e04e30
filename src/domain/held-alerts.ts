// One cause, one alert (docs/contract/incidents.md, "Dependencies"): an alert is held until it is known whether a monitor that its
// own one depends on is down, or whether its operator sees a cause of it. Pure: the caller reads the causes.
import { deadlineAfter } from './deadline.ts';
import {
  hasEnded,
  type Incident,
  type IncidentEvent,
  type SuppressedBy,
  type SuppressingIncident,
  type Transition,
} from './incident.ts';
import { shownCause } from './incident-record.ts';
import { windowAt } from './maintenance.ts';
import type { LiveState, Outage, Timing } from './monitor.ts';
import type { AlertedCause } from './operator-cause.ts';
import { deadlinesOf } from './silence.ts';

/** How long an alert of a monitor with dependencies is held: two deadlines of one cause may pass in either order. */
export const HOLD_MS = 30_000;
/** The same of a monitor that an operator beats: Kubernetes takes up to 50 s to see that a node is dead. */
export const BEATEN_HOLD_MS = 60_000;
/** How often a suppressed incident asks about its cause by itself: a job of the sweeper wakes it when that has ended. */
export const RECHECK_MS = 10 * 60_000;
/** How often one that recovers is looked at, and for how long at most: one that flaps is told of. */
const RECOVERING_MS = 60_000;
const MOST_RECOVERING_MS = 5 * 60_000;
/** How long alerts wait for the sweeper to decide about the deadline of a cause that has passed. */
export const MOST_UNDECIDED_MS = 5 * 60_000;
const UNDECIDED_MS = 5_000;

/** A cause that the operator sees at a monitor, or the last one that it saw. */
export interface SeenCause extends AlertedCause {
  /** Undefined: it sees it now. */
  endedMs?: number;
}

/** What is known of the monitors that a monitor depends on, directly or through others, and of what its operator sees. */
export interface Causes {
  /** The nearest one that is down and has told somebody, or will; of those the one that has been for longest. */
  down?: SuppressingIncident;
  /** The deadline of one has just passed, and no sweeper has decided about it yet. */
  isUndecided: boolean;
  /** The one that was down last, of those that told somebody, and when that ended. */
  last?: SuppressingIncident & { endedMs: number };
  /** When the incidents ended that suppress those of this monitor, by id; absent while they are open. */
  ended: ReadonlyMap<string, number>;
  seen?: SeenCause;
  /** Incidents whose endpoint has had the alert that names `seen`. */
  told?: ReadonlySet<string>;
}

/** The moment of a decision. */
export interface HoldMoment {
  nowMs: number;
  /** No silence is judged after it: beats before it may be unknown. */
  horizonMs: number;
  /** Of a monitor that an operator beats: what its silence does not hold up. */
  service?: { horizonMs: number } | undefined;
  /** As `mergeOutages` returns them. */
  outages: readonly Outage[];
  /** When the organization was last served again after a suspension. */
  returnedMs?: number;
  causes?: Causes;
}

const OPENING: ReadonlySet<IncidentEvent> = new Set(['incident.opened', 'incident.reopened']);

/** Whether nobody was told of the incident because of its cause, or nobody is yet. */
export function isHeld({ heldMs, suppressedBy }: Pick<Incident, 'heldMs' | 'suppressedBy'>): boolean {
  return heldMs !== undefined || suppressedBy !== undefined;
}

/** How long alerts of the monitor are held. Undefined: they are not. */
export function holdOf({ startsMove: isBeaten, dependsOn }: Timing): number | undefined {
  if (isBeaten) return BEATEN_HOLD_MS;
  return dependsOn === undefined ? undefined : HOLD_MS;
}

/** Holds the alerts of what has opened, if the monitor has causes elsewhere. The caller counts the wake again. */
export function holdAlerts(
  timing: Timing,
  live: LiveState,
  transitions: readonly Transition[],
  nowMs: number,
): { live: LiveState; transitions: Transition[] } {
  const forMs = holdOf(timing);
  if (forMs === undefined) return { live, transitions: [...transitions] };
  const held = transitions.map((transition) => holdAlert(transition, nowMs + forMs));
  const moments = held.flatMap(({ incident }) => incident.heldMs ?? []);
  const holdMs =
    moments.length === 0 ? live.holdMs : Math.min(live.holdMs ?? Number.POSITIVE_INFINITY, ...moments);
  return { live: { ...live, holdMs }, transitions: held };
}

function holdAlert(transition: Transition, untilMs: number): Transition {
  const { incident, event } = transition;
  if (!event || !OPENING.has(event.type)) return transition;
  // One that flaps keeps its first moment. No alert is out that another one would come too soon after.
  const { heldMs = incident.suppressedBy ? undefined : untilMs } = incident;
  return { ...transition, event: undefined, incident: { ...incident, heldMs, alertedMs: undefined } };
}

/**
 * What becomes of held and suppressed incidents: the alert goes out, it is suppressed, or the question is put again at
 * `live.holdMs`.
 */
export function decideHeld(
  timing: Timing,
  live: LiveState,
  incidents: readonly Incident[],
  moment: HoldMoment,
): { live: LiveState; transitions: Transition[] } {
  const { nowMs, causes } = moment;
  if (live.holdMs === undefined || live.holdMs > heldUpToMs(moment)) return { live, transitions: [] };
  if (causes === undefined) return { live: { ...live, holdMs: nowMs + RECOVERING_MS }, transitions: [] };
  const decided = incidents
    .filter((incident) => isHeld(incident) && !hasEnded(incident))
    .map((incident) => decide(timing, live, incident, { ...moment, causes }));
  const looks = decided.flatMap(({ incident }) => lookAgainMs(incident, nowMs) ?? []);
  const holdMs = looks.length === 0 ? undefined : Math.min(...looks);
  const changed = decided.filter(({ incident, event }) => event || !incidents.includes(incident));
  return { live: { ...live, holdMs }, transitions: changed };
}

/** When the incident is looked at again; undefined where its alert is out, or where it has ended. */
export function lookAgainMs(incident: Incident, nowMs: number): number | undefined {
  if (!isHeld(incident) || hasEnded(incident)) return undefined;
  return incident.heldMs ?? nowMs + RECHECK_MS;
}

type Moment = HoldMoment & { causes: Causes };

const heldUpToMs = ({ horizonMs, service }: HoldMoment) => service?.horizonMs ?? horizonMs;

function decide(timing: Timing, live: LiveState, incident: Incident, moment: Moment): Transition {
  const { nowMs, horizonMs, causes } = moment;
  const { heldMs, suppressedBy } = incident;
  if (heldMs !== undefined && heldMs > heldUpToMs(moment)) return unchanged(incident);
  if (causes.down) return suppress(incident, causes.down, nowMs);
  const cause = endedCause(incident, causes);
  if (cause) {
    const dueMs = dueAfter(timing, live, cause.endedMs, moment);
    if (dueMs > horizonMs) return suppress(incident, cause, nowMs, dueMs);
  }
  const seen = countsFor(incident, causes.seen);
  const dueMs = seen?.endedMs === undefined ? undefined : dueAfter(timing, live, seen.endedMs, moment);
  const isInTime = dueMs === undefined || dueMs > horizonMs;
  if (seen && isInTime && isTold(incident, seen, causes)) return suppress(incident, seen, nowMs, dueMs);
  const sinceMs = incident.reopenedMs ?? incident.openedMs;
  // It was suppressed, and nothing tells how long that took.
  const isYoung = nowMs - sinceMs < MOST_RECOVERING_MS || suppressedBy !== undefined;
  if (incident.state === 'recovering' && isYoung) return hold(incident, nowMs + RECOVERING_MS);
  if (causes.isUndecided) return hold(incident, nowMs + UNDECIDED_MS);
  // In a window no alert goes out, and one that is dropped is lost.
  const window = windowAt(timing, nowMs);
  return window ? hold(incident, window.endsMs) : release(incident, nowMs, isInTime ? seen : undefined);
}

/** The cause that the operator sees, if the incident may come from it: a job that failed through it says so a little later. */
function countsFor(incident: Incident, seen: SeenCause | undefined): SeenCause | undefined {
  if (seen?.endedMs === undefined) return seen;
  const { suppressedBy: by, openedMs, reopenedMs = openedMs } = incident;
  const isKnown = by !== undefined && 'cause' in by;
  return isKnown || seen.endedMs >= reopenedMs - BEATEN_HOLD_MS ? seen : undefined;
}

/** Whether an alert was out for its cause, where this one would go too. */
function isTold(
  { incidentId, suppressedBy: by }: Incident,
  { endedMs }: SeenCause,
  { told }: Causes,
): boolean {
  if (told?.has(incidentId)) return true;
  return endedMs !== undefined && by !== undefined && 'cause' in by;
}

/** The cause that has suppressed it, or one that was down since it opened, if that has ended: the one that ended last. */
function endedCause(of: Incident, { last, ended }: Causes): Causes['last'] {
  const { suppressedBy: by, openedMs, reopenedMs = openedMs } = of;
  const incident = by && 'incidentId' in by ? by : undefined;
  const endedMs = incident && ended.get(incident.incidentId);
  const known = incident && endedMs !== undefined ? { ...incident, endedMs } : undefined;
  if (last === undefined || last.endedMs < reopenedMs) return known;
  return known === undefined || known.endedMs < last.endedMs ? last : known;
}

/**
 * One interval and grace from the end of its cause. What moves a deadline moves it too: outages of the service, beats that it
 * could not take, a suspension.
 */
function dueAfter(
  timing: Timing,
  live: LiveState,
  endedMs: number,
  { outages, returnedMs = 0 }: Moment,
): number {
  const anchorMs = Math.max(endedMs, returnedMs, live.excusedMs ?? 0);
  const deadlineMs = deadlineAfter(timing, live, anchorMs) ?? anchorMs + timing.graceMs;
  const silence = { ...live, anchorMs, deadlineMs, unmovedMs: undefined, missedCount: 0 };
  return deadlinesOf({ ...timing, missedBeatsToOpen: 1 }, silence, outages).at(-1) ?? deadlineMs;
}

const unchanged = (incident: Incident): Transition => ({ incident, isNew: false, entries: [] });
const hold = (incident: Incident, heldMs: number): Transition => unchanged({ ...incident, heldMs });

/** The cause has an alert of its own. `heldMs`: until when it is given time, where the cause has ended. */
function suppress(incident: Incident, cause: SuppressedBy, nowMs: number, heldMs?: number): Transition {
  const before = incident.suppressedBy;
  const by = onlyCause(cause);
  if (before && isSame(before, by) && incident.heldMs === heldMs) return unchanged(incident);
  const detail = { event: openingOf(incident), reason: 'dependency', ...shownCause(by) };
  return {
    incident: { ...incident, heldMs, suppressedBy: by },
    isNew: false,
    entries: before ? [] : [{ type: 'suppressed', atMs: nowMs, detail }],
  };
}

function onlyCause(by: SuppressedBy): SuppressedBy {
  return 'cause' in by
    ? { causeId: by.causeId, cause: by.cause, object: by.object }
    : { monitorId: by.monitorId, incidentId: by.incidentId };
}

const isSame = (one: SuppressedBy, other: SuppressedBy) => idOf(one) === idOf(other);
const idOf = (by: SuppressedBy) => ('cause' in by ? by.causeId : by.incidentId);

/** The alert goes out after all. `seen`: the cause that it names. */
function release(incident: Incident, nowMs: number, seen?: SeenCause): Transition {
  const event = openingOf(incident);
  const cause = seen && {
    ...{ causeId: seen.causeId, cause: seen.cause, object: seen.object },
    monitors: seen.monitors,
  };
  const named = cause && { ...shownCause(cause), monitors: cause.monitors };
  return {
    incident: { ...incident, heldMs: undefined, suppressedBy: undefined, alertedMs: nowMs },
    isNew: false,
    entries: [{ type: 'released', atMs: nowMs, detail: { event, ...named } }],
    event: { type: event },
    ...(cause ? { cause } : {}),
  };
}

function openingOf({ eventSequence }: Incident): 'incident.opened' | 'incident.reopened' {
  return eventSequence === 0 ? 'incident.opened' : 'incident.reopened';
}

/**
 * Why an event of an incident is not sent whose opening nobody was told of: `dependency`, or `held` where it came before
 * that was decided.
 */
export function unsentReason({ incident, event }: Transition): 'dependency' | 'held' | undefined {
  if (!event || OPENING.has(event.type) || !isHeld(incident)) return undefined;
  // Its end, and who takes care of it, concern those who know of it.
  if (incident.eventSequence > 0 && event.type !== 'incident.escalated') return undefined;
  return incident.suppressedBy ? 'dependency' : 'held';
}
