// The offset of a time zone from UTC at a moment, by the time zones of this build of Node. Pure.

/** The spans in which an offset is taken to change once at most: a day as a rule, an hour of one in which it changes. */
const SPANS_MS = [86_400_000, 3_600_000];
/** There are some 600 names of zones, but any upper and lower case of them is one too. */
const MAX_ZONES = 1_000;

const zones = new Map<string, ZoneOffset>();

/** Throws RangeError for a zone that is not known. */
export function zoneOffset(timeZone: string): ZoneOffset {
  const known = zones.get(timeZone);
  if (known) return known;
  if (zones.size >= MAX_ZONES) zones.clear();
  const made = new ZoneOffset(timeZone);
  zones.set(timeZone, made);
  return made;
}

export class ZoneOffset {
  readonly #format: Intl.DateTimeFormat;
  /** The span that was asked last, if nothing changes in it: most questions follow each other. */
  #span: { fromMs: number; toMs: number; offsetMs: number } | undefined;

  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      ...{ timeZone, calendar: 'gregory', numberingSystem: 'latn', hourCycle: 'h23' },
      ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
    });
  }

  /** Positive east of Greenwich. */
  at(ms: number): number {
    const known = this.#span;
    if (known && ms >= known.fromMs && ms < known.toMs) return known.offsetMs;
    for (const lengthMs of SPANS_MS) {
      const fromMs = Math.floor(ms / lengthMs) * lengthMs;
      const toMs = fromMs + lengthMs;
      const offsetMs = this.#read(fromMs);
      if (offsetMs !== this.#read(toMs)) continue;
      this.#span = { fromMs, toMs, offsetMs };
      return offsetMs;
    }
    return this.#read(ms);
  }

  #read(ms: number): number {
    const wholeMs = Math.floor(ms / 1000) * 1000;
    const numbers = this.#format.format(wholeMs).match(/\d+/g) ?? [];
    const [month = 1, day = 1, year = 1970, hour = 0, minute = 0, second = 0] = numbers.map(Number);
    return Date.UTC(year, month - 1, day, hour, minute, second) - wholeMs;
  }
}
