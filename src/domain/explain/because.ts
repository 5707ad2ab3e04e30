// Why a monitor is in its state, in a sentence for people, with one more for an incident, for an operator that is silent, and for
// a suspension. Pure.
import { lateFrom } from '../deadline.ts';
import { healthOf } from '../health.ts';
import { INCIDENT_STATES, makesDown, SEVERITIES } from '../incident.ts';
import { windowAt } from '../maintenance.ts';
import type { Health } from '../monitor.ts';
import { silenceOf } from '../operator-sign.ts';
import { isServed } from '../plan.ts';
import { type DeadlineWords, missedBefore, partsWords } from './deadline-words.ts';
import { explainStop } from './explain-stop.ts';
import type { Cause, State } from './situation.ts';
import { timeWords } from './words.ts';

/** What a sentence may say of deadlines. */
export interface Deadlines {
  /** Undefined: it is not known, and the sentence leaves it out. */
  running?: DeadlineWords;
  /** That makes the monitor down. Undefined: there is none, or what it is made of is not known. */
  missed?: DeadlineWords;
}

/** Times name their day where that is not the day of `nearMs`; undefined: always, since the sentence is read on other days too. */
export function becauseOf(state: State, deadlines: Deadlines, nearMs?: number): string {
  const { timing, live, incidents, atMs } = state;
  const health = healthOf(timing, live, incidents, atMs);
  const told = { ...state, ...deadlines, at: (ms: number) => timeWords(ms, nearMs) };
  return `${SENTENCES[health](told)}${incidentWords(told, health)}${operatorWords(told)}${suspensionWords(told)}`;
}

interface Told extends State, Deadlines {
  at: (ms: number) => string;
}

const SENTENCES: Record<Health, (told: Told) => string> = {
  paused: (told) =>
    `Paused${sinceAction(told)}: ${isSuspended(told) ? '' : 'beats are recorded, and '}no deadline runs.`,
  archived: (told) => `Archived${sinceAction(told)}: beats are refused.`,
  maintenance: ({ timing, atMs, at }) => {
    const { endsMs = atMs, reason } = windowAt(timing, atMs) ?? {};
    const until = at(endsMs);
    return `In maintenance until ${until}${reason ? ` (${reason})` : ''}: nothing opens before.`;
  },
  down: (told) => {
    const { kind, sinceMs, summary } = graveIncident(told, 'open') ?? {};
    // It may have become that grave later.
    if (kind === 'rule_violation')
      return `Down: ${summary} The incident is open since ${told.at(sinceMs ?? told.atMs)}.`;
    return `Down since ${causeOf(told, 'open')}`;
  },
  recovering: (told) => {
    const { recoveryBeats } = told.timing;
    const ofRule = graveIncident(told, 'recovering')?.kind === 'rule_violation';
    const ofBeats = recoveryBeats === 1 ? 'a success' : `${recoveryBeats} successes in a row`;
    const needed = ofRule ? 'as many conforming successes in a row as its rule counts' : ofBeats;
    return `Recovering since ${causeOf(told, 'recovering')} It is over after ${needed}.`;
  },
  late: (told) => `Late${lateWords(told)}: ${joined(lastBeatWords(told), deadlineWords(told))}.`,
  waiting: (told) => {
    const deadline = deadlineWords(told);
    return `Waiting for the first beat${deadline && `: ${deadline}`}.`;
  },
  up: (told) => `Up: ${joined(lastBeatWords(told), deadlineWords(told))}.`,
};

function lateWords({ timing, running, atMs, at }: Told): string {
  if (running?.atMs === undefined) return '';
  const lateMs = lateFrom(timing, running.atMs);
  // A deadline that was put off makes the monitor late again later. One after a miss has made it late earlier.
  return lateMs > atMs || missedBefore(running) > 0 ? '' : ` since ${at(lateMs)}`;
}

/** Of which incidents a sentence goes on to say that they are not over: where it does not say so itself. */
const NAMED: Partial<Record<Health, readonly Cause['state'][]>> = {
  up: ['open', 'recovering'],
  late: ['open', 'recovering'],
  waiting: ['open', 'recovering'],
  recovering: ['open'],
  maintenance: ['open'],
};

/** The gravest of them, open ones first, then the oldest. Empty where there is none. */
function incidentWords({ incidents, at }: Told, health: Health): string {
  const states = NAMED[health];
  if (!states || incidents.length === 0) return '';
  const [gravest, ...others] = incidents
    .filter(({ state }) => states.includes(state))
    .toSorted(
      (a, b) =>
        SEVERITIES.indexOf(b.severity) - SEVERITIES.indexOf(a.severity) ||
        INCIDENT_STATES.indexOf(a.state) - INCIDENT_STATES.indexOf(b.state),
    );
  if (!gravest) return '';
  const { severity, state, sinceMs, summary } = gravest;
  const more = others.length === 0 ? '' : ` And ${others.length} more.`;
  return ` An incident of severity ${severity} is ${state} since ${at(sinceMs)}: ${summary}${more}`;
}

function isSuspended({ serviceState }: Told): boolean {
  return serviceState !== undefined && !isServed(serviceState);
}

/** Empty where the operator that beats the monitor gives signs, where none does, and where nobody would judge it anyway. */
function operatorWords(told: Told): string {
  const { operator, timing, atMs, at } = told;
  if (!operator || timing.lifecycle !== 'active' || isSuspended(told)) return '';
  const { isSilent, sinceMs } = silenceOf(operator, atMs);
  if (!isSilent) return '';
  return ` No operator has reported${sinceMs === undefined ? '' : ` since ${at(sinceMs)}`}: not judged.`;
}

/** Empty where the organization is served. */
function suspensionWords(told: Told): string {
  if (!isSuspended(told)) return '';
  const { suspendedMs, at } = told;
  const since = suspendedMs === undefined ? '' : ` since ${at(suspendedMs)}`;
  return ` The service of the organization is suspended${since}: beats are refused, and nothing is judged.`;
}

/** `deadline` may be empty. */
function joined(lastBeat: string, deadline: string): string {
  return deadline ? `${lastBeat}; ${deadline}` : lastBeat;
}

function sinceAction({ action, at }: Told): string {
  return action ? ` since ${at(action.atMs)} by ${action.actor.display}` : '';
}

/** The incident that makes the health, the oldest. */
function graveIncident({ incidents }: Told, state: Cause['state']): Cause | undefined {
  return incidents.find((one) => makesDown(one) && one.state === state);
}

function causeOf(told: Told, state: Cause['state']): string {
  const { live, atMs, at } = told;
  const incident = graveIncident(told, state);
  if (!incident) return `${at(atMs)}.`;
  const { kind, deadlineMs, sinceMs, summary } = incident;
  const since = at(sinceMs);
  const { lastBeatMs } = live;
  // A beat that makes it recover is not before that.
  const hasBeaten = lastBeatMs !== undefined && (lastBeatMs > sinceMs || state === 'recovering');
  if (kind !== 'missed_deadline' || deadlineMs === undefined || hasBeaten) return `${since}: ${summary}`;
  const silent = lastBeatMs === undefined ? 'no beat has come' : `no beat since ${at(lastBeatMs)}`;
  return `${since}: ${silent}; ${missedWords(told, deadlineMs)}.`;
}

function missedWords(told: Told, deadlineMs: number): string {
  const { timing, missed, changes, at } = told;
  const { missedBeatsToOpen: count } = timing;
  const which = count === 1 || changes.length > 0 ? 'the deadline' : `the last of ${count} deadlines`;
  return `${which} was ${at(deadlineMs)}${missed ? madeOf(told, missed) : ''}`;
}

function lastBeatWords({ live: { lastBeatMs }, at }: Told): string {
  return lastBeatMs === undefined ? 'no beat has come' : `the last beat came at ${at(lastBeatMs)}`;
}

/** Empty: not known. */
function deadlineWords(told: Told): string {
  const { running, timing, at } = told;
  if (!running) return '';
  if (running.atMs === undefined) return lowered(explainStop(told, at).note);
  const { missedBeatsToOpen: count } = timing;
  const which = count === 1 ? 'the deadline' : `deadline ${missedBefore(running) + 1} of ${count}`;
  return `${which} is ${at(running.atMs)}${madeOf(told, running)}`;
}

/** After a change the parts do not say what made a deadline. */
function madeOf({ changes, live: { lastBeatMs }, at }: Told, deadline: DeadlineWords): string {
  return changes.length > 0 ? '' : partsWords(deadline, { lastBeatMs, at });
}

/** A sentence inside of another one. */
function lowered(sentence: string): string {
  return `${sentence[0]?.toLowerCase() ?? ''}${sentence.slice(1).replace(/\.$/, '')}`;
}
