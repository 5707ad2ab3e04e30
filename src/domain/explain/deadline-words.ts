// A deadline in a sentence: its time, and in brackets what adds up to it. What does not add up is left out. Pure.
import type { DeadlinePart, ExplainedDeadline } from './situation.ts';
import { roundedSpanWords, spanWords } from './words.ts';

/** What a sentence needs of a deadline, for which `ExplainedDeadline` does. Without `atMs` none runs. */
export type DeadlineWords = Pick<ExplainedDeadline, 'atMs'> & {
  parts: readonly Pick<DeadlinePart, 'kind' | 'atMs' | 'ms' | 'missed' | 'whose'>[];
};

/** What the sentence has said before, and how it writes a time. */
export interface Context {
  /** The last beat that the sentence names: what is added counts from it unless it says otherwise. */
  lastBeatMs: number | undefined;
  at: (ms: number) => string;
}

/** ` (interval 1 h, grace 5 min)`; empty where the parts have no words. */
export function partsWords({ parts }: DeadlineWords, { lastBeatMs, at }: Context): string {
  const [start, ...steps] = parts;
  let fromMs = start?.atMs;
  let isScheduled = false;
  let words = '';
  for (const step of steps) {
    const { kind, atMs, ms = 0 } = step;
    if (ms < 0) return '';
    if (kind === 'refused_beat') fromMs = atMs;
    else if (kind === 'cron' && atMs !== undefined) {
      isScheduled = true;
      words = `schedule ${at(atMs)}`;
    } else if (ms > 0) {
      const more = stepWords(step, at);
      if (!more) return '';
      words += `${words && ', '}${more}`;
    }
  }
  if (!words || fromMs === undefined) return '';
  // A time of the schedule stands for itself.
  const from = isScheduled || fromMs === lastBeatMs ? '' : `from ${at(fromMs)}: `;
  return ` (${from}${words})`;
}

const AWAY = {
  operator: 'while no operator led',
  both: 'for outages of Beatkeeper and of its operator',
};

function stepWords(
  { kind, atMs, ms = 0, missed, whose }: DeadlineWords['parts'][number],
  at: Context['at'],
): string {
  if (missed !== undefined) {
    return `${roundedSpanWords(ms)} for ${missed === 1 ? 'a missed beat' : `${missed} missed beats`}`;
  }
  switch (kind) {
    case 'interval':
    case 'grace':
      return `${kind} ${spanWords(ms)}`;
    case 'learned':
      return `learned cadence ${spanWords(ms)}`;
    case 'maintenance':
      return atMs === undefined ? '' : `maintenance until ${at(atMs)}`;
    case 'service_outage':
      return `${roundedSpanWords(ms)} ${whose ? AWAY[whose] : 'for an outage of Beatkeeper'}`;
    default:
      return '';
  }
}

/** How many deadlines of the silence have passed before this one. */
export function missedBefore({ parts }: DeadlineWords): number {
  return parts.find(({ missed }) => missed !== undefined)?.missed ?? 0;
}
