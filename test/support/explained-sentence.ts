// What a reader makes of the sentence of an explanation: the deadline that it names, and what it says that the deadline is made
// of, added up.

export interface ToldDeadline {
  atMs: number;
  /** Of one that must pass more than once in a row: which one, of how many. */
  place?: { number: number; of: number };
  isMissed: boolean;
  /** Undefined where the sentence does not say what the deadline is made of. */
  sumMs?: number;
  /** How far the sum may be off: each time and each rounded span is true to the second. */
  toleranceMs: number;
}

const TIME = String.raw`\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2} UTC`;
const DEADLINE = new RegExp(
  String.raw`(the deadline|deadline (\d+) of (\d+)|the last of (\d+) deadlines) (is|was) (${TIME})(?: \(([^)]*)\))?\.`,
);
const timeOf = (words: string) => Date.parse(words.replace(' UTC', 'Z').replace(' ', 'T'));

/** Of a sentence in which each time has its day. Undefined where it names no deadline. */
export function readDeadline(sentence: string): ToldDeadline | undefined {
  const found = DEADLINE.exec(sentence);
  if (!found) return undefined;
  const [, , number, of, last, tense, time = '', made] = found;
  const count = of ?? last;
  const told = {
    atMs: timeOf(time),
    place: count === undefined ? undefined : { number: Number(number ?? last), of: Number(count) },
    isMissed: tense === 'was',
  };
  if (made === undefined) return { ...told, toleranceMs: 0 };
  const named = new RegExp(`(?:the last beat came at|no beat since) (${TIME})`).exec(sentence)?.[1];
  return { ...told, ...addUp(made, named) };
}

function addUp(made: string, lastBeat: string | undefined): Pick<ToldDeadline, 'sumMs' | 'toleranceMs'> {
  const [, from = lastBeat, steps = ''] = new RegExp(`^(?:from (${TIME}): )?(.*)$`).exec(made) ?? [];
  let sumMs = from === undefined ? Number.NaN : timeOf(from);
  const words = steps.split(', ');
  for (const step of words) {
    const set = new RegExp(`^(?:schedule|maintenance until) (${TIME})$`).exec(step)?.[1];
    sumMs = set === undefined ? sumMs + spanOf(step) : timeOf(set);
  }
  return { sumMs, toleranceMs: (words.length + 1) * 1_000 };
}

const UNITS: Record<string, number> = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1_000 };
const SPAN = String.raw`(?:[\d.]+ (?:d|h|min|s) ?)+`;
const STEP = new RegExp(
  `^(?:(?:interval|learned cadence|grace) (${SPAN})|(${SPAN})(?:for (?:a missed beat|\\d+ missed beats|an outage of Beatkeeper|outages of Beatkeeper and of its operator)|while no operator led))$`,
);

function spanOf(step: string): number {
  const span = STEP.exec(step);
  const parts = (span?.[1] ?? span?.[2] ?? '').matchAll(/([\d.]+) (d|h|min|s)/g);
  const ms = [...parts].reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNITS[unit] ?? 0), 0);
  return ms === 0 ? Number.NaN : ms;
}
