// Why a monitor is in its state, in one sentence, and what comes next. Each word comes from what is stored. Pure.
import { intervalOf, lateFrom } from '../deadline.ts';
import { healthOf } from '../health.ts';
import { makesDown } from '../incident.ts';
import type { Health } from '../monitor.ts';
import { explainDeadline } from './explain-deadline.ts';
import { explainSilence } from './explain-silence.ts';
import type { DeadlinePart, ExplainedDeadline, Explanation, IncidentThen, Situation } from './situation.ts';
import { spanWords, timeWords } from './words.ts';

export function explain(situation: Situation): Explanation {
  const { timing, live, incidents, atMs } = situation;
  const deadline = explainDeadline(situation);
  const health = healthOf(timing, live, incidents, atMs);
  const because = SENTENCES[health](situation, deadline);
  return { health, because, deadline, silence: explainSilence(situation) };
}

type Sentence = (situation: Situation, deadline: ExplainedDeadline) => string;

const SENTENCES: Record<Health, Sentence> = {
  paused: (situation) => `Paused${sinceAction(situation)}: beats are recorded, and no deadline runs.`,
  archived: (situation) => `Archived${sinceAction(situation)}: beats are refused.`,
  maintenance: ({ timing, action, atMs }) => {
    const until = timeWords(timing.maintenance?.endsMs ?? atMs, atMs);
    const reason = action?.reason ? ` (${action.reason})` : '';
    return `In maintenance until ${until}${reason}: nothing opens before.`;
  },
  down: (situation) => `Down since ${causeOf(situation, 'open')}`,
  recovering: (situation) => {
    const { recoveryBeats } = situation.timing;
    const needed = recoveryBeats === 1 ? 'a success' : `${recoveryBeats} successes in a row`;
    return `Recovering since ${causeOf(situation, 'recovering')} It is over after ${needed}.`;
  },
  late: (situation, deadline) => {
    const { atMs, timing } = situation;
    const since =
      deadline.atMs === undefined ? '' : ` since ${timeWords(lateFrom(timing, deadline.atMs), atMs)}`;
    return `Late${since}: ${lastBeatWords(situation)}; ${deadlineWords(deadline, atMs)}.`;
  },
  waiting: (situation, deadline) => `Waiting for the first beat: ${deadlineWords(deadline, situation.atMs)}.`,
  up: (situation, deadline) => `Up: ${lastBeatWords(situation)}; ${deadlineWords(deadline, situation.atMs)}.`,
};

function sinceAction({ action, atMs }: Situation): string {
  return action ? ` since ${timeWords(action.atMs, atMs)} by ${action.actor.display}` : '';
}

/** The incident that makes the health, the oldest. */
function causeOf(situation: Situation, state: IncidentThen['state']): string {
  const { incidents, live, atMs } = situation;
  const incident = incidents.find((one) => makesDown(one) && one.state === state);
  if (!incident) return `${timeWords(atMs, atMs)}.`;
  const { kind, deadlineMs, sinceMs, summary } = incident;
  const since = timeWords(sinceMs, atMs);
  const { lastBeatMs } = live;
  const hasBeaten = lastBeatMs !== undefined && lastBeatMs > sinceMs;
  if (kind !== 'missed_deadline' || deadlineMs === undefined || hasBeaten) return `${since}: ${summary}`;
  const silent =
    lastBeatMs === undefined ? 'no beat has come' : `no beat since ${timeWords(lastBeatMs, atMs)}`;
  return `${since}: ${silent}; the deadline was ${timeWords(deadlineMs, atMs)}${timingWords(situation)}.`;
}

/** What made the deadline that was missed, unless it was changed since. */
function timingWords({ timing, live, changes }: Situation): string {
  if (changes.length > 0) return '';
  const { graceMs, schedule } = timing;
  const intervalMs = intervalOf(timing, live);
  const interval = intervalMs === undefined ? '' : `interval ${spanWords(intervalMs)}, `;
  return ` (${schedule ? 'schedule, ' : interval}grace ${spanWords(graceMs)})`;
}

function lastBeatWords({ live: { lastBeatMs }, atMs }: Situation): string {
  return lastBeatMs === undefined
    ? 'no beat has come'
    : `the last beat came at ${timeWords(lastBeatMs, atMs)}`;
}

function deadlineWords({ atMs: deadlineMs, parts }: ExplainedDeadline, atMs: number): string {
  const [first] = parts;
  if (deadlineMs === undefined) return lowered(first?.note ?? 'No deadline runs.');
  const why = parts.flatMap(partWords).join(', ');
  return `the deadline is ${timeWords(deadlineMs, atMs)}${why && ` (${why})`}`;
}

/** A part in a few words, where it has some. */
function partWords({ kind, ms = 0 }: DeadlinePart): string[] {
  const names: Partial<Record<DeadlinePart['kind'], string>> = {
    interval: 'interval',
    learned: 'learned cadence',
    grace: 'grace',
    maintenance: 'maintenance',
    service_outage: 'outage of Beatkeeper',
  };
  const name = names[kind];
  return name && ms > 0 ? [`${name} ${spanWords(ms)}`] : [];
}

/** A sentence inside of another one. */
function lowered(sentence: string): string {
  return `${sentence[0]?.toLowerCase() ?? ''}${sentence.slice(1).replace(/\.$/, '')}`;
}
