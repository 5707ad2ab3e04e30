// Times on the wire: RFC 3339, in the years that both Postgres and RFC 3339 can write (0001 to 9999 in UTC).

const DATE_TIME =
  /^(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * RFC 3339 5.6 allows small letters and leap seconds. A leap second is read as the second after it, as clocks without
 * leap seconds do. A text that is no time stays as it is.
 */
export function canonicalTime(text: string): string {
  const upper = text.toUpperCase();
  const leap = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}):60(\.\d+)?(Z|[+-]\d{2}:\d{2})$/.exec(upper);
  if (!leap) return upper;
  const [, minute, fraction = '', offset] = leap;
  const after = new Date(Date.parse(`${minute}:59${fraction}${offset}`) + 1_000);
  // Leap seconds end a month in UTC.
  const isLeap = after.getUTCDate() === 1 && after.getUTCHours() === 0 && after.getUTCMinutes() === 0;
  return isLeap ? after.toISOString() : upper;
}

/** An offset can move a time out of the years that can be written. */
export function isWritableTime(ms: number): boolean {
  return ms >= FIRST_MS && ms <= LAST_MS;
}

/** The time that can be written which is the nearest. */
export function nearestWritable(ms: number): number {
  return Math.min(LAST_MS, Math.max(FIRST_MS, ms));
}

/** Milliseconds since 1970; undefined if the text is no RFC 3339 time or its year can't be written. */
export function parseTimestamp(text: string): number | undefined {
  const canonical = canonicalTime(text);
  const [, year, month, day] = (DATE_TIME.exec(canonical) ?? []).map(Number);
  // Date.parse takes the 31st of February for the 3rd of March.
  if (year === undefined || month === undefined || day === undefined) return undefined;
  if (day > new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate()) return undefined;
  const ms = Date.parse(canonical);
  return isWritableTime(ms) ? ms : undefined;
}

/** As `toISOString` of a Date writes it, in a third of the time: each answer has thousands. Throws a RangeError for no time. */
export function toTime(ms: number): string {
  const whole = Math.trunc(ms);
  const day = Math.floor(whole / DAY_MS);
  const ofDay = whole - day * DAY_MS;
  const seconds = Math.floor(ofDay / 1000);
  return `${dayText(day)}T${clockText(seconds)}.${THREE_DIGITS[ofDay - seconds * 1000]}Z`;
}

const DAY_MS = 86_400_000;
const TWO_DIGITS = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));
const THREE_DIGITS = Array.from({ length: 1000 }, (_, number) => String(number).padStart(3, '0'));
const MINUTES = Array.from(
  { length: 1440 },
  (_, minute) => `${TWO_DIGITS[Math.floor(minute / 60)]}:${TWO_DIGITS[minute % 60]}`,
);

/** `hh:mm:ss` of a second of the day. */
export function clockText(second: number): string {
  const minute = Math.floor(second / 60);
  return `${MINUTES[minute]}:${TWO_DIGITS[second - minute * 60]}`;
}

/** The times of one answer are mostly of a few days. */
const days = new Map<number, string>();
const MOST_DAYS = 1000;

/** `yyyy-mm-dd` of a day since 1970. */
export function dayText(day: number): string {
  const known = days.get(day);
  if (known !== undefined) return known;
  const text = new Date(day * DAY_MS).toISOString().split('T')[0] ?? '';
  if (days.size >= MOST_DAYS) days.clear();
  days.set(day, text);
  return text;
}

export function optionalTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : toTime(ms);
}

/** Of a time that the contract has checked. */
export function optionalMs(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time);
}
