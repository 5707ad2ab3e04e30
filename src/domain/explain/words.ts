// Times and spans in sentences for people.

/** A time in UTC; without its day where that is the day of `nearMs`. */
export function timeWords(ms: number, nearMs: number): string {
  const [day, time = ''] = new Date(ms).toISOString().split('T');
  const clock = `${time.slice(0, 8)} UTC`;
  return new Date(nearMs).toISOString().startsWith(`${day}T`) ? clock : `${day} ${clock}`;
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
] as const;

/** In the largest unit that is exact. */
export function spanWords(ms: number): string {
  const unit = UNITS.find(([, length]) => ms >= length && ms % length === 0);
  return unit ? `${ms / unit[1]} ${unit[0]}` : `${ms / 1000} s`;
}
