// Times and spans in sentences for people.
import { clockText, dayText } from '../timestamp.ts';

const DAY_MS = 86_400_000;

/** A time in UTC; without its day where that is the day of `nearMs`. */
export function timeWords(ms: number, nearMs: number | undefined): string {
  const day = Math.floor(ms / DAY_MS);
  const seconds = Math.floor((ms - day * DAY_MS) / 1000);
  const clock = `${clockText(seconds)} UTC`;
  return nearMs !== undefined && day === Math.floor(nearMs / DAY_MS) ? clock : `${dayText(day)} ${clock}`;
}

const UNITS = [
  ['d', DAY_MS],
  ['h', 3_600_000],
  ['min', 60_000],
] as const;

/** In the largest unit that is exact. */
export function spanWords(ms: number): string {
  const unit = UNITS.find(([, length]) => ms >= length && ms % length === 0);
  return unit ? `${ms / unit[1]} ${unit[0]}` : `${ms / 1000} s`;
}

/** To the second, in units that each are less than one of the next: `1 h 3 min 20 s`. */
export function roundedSpanWords(ms: number): string {
  let left = Math.max(1_000, Math.round(ms / 1_000) * 1_000);
  let words = '';
  for (const [unit, length] of UNITS) {
    const count = Math.floor(left / length);
    left -= count * length;
    if (count > 0) words += `${count} ${unit} `;
  }
  return left > 0 ? `${words}${left / 1_000} s` : words.trimEnd();
}
