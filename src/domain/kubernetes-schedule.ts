// When the CronJob controller of Kubernetes starts a Job: the same steps as those of its library, robfig/cron v3.0.1 (spec.go,
// parser.go), which differ from other crons where clocks change. A local time that does not exist is skipped, one that comes
// twice runs twice; docs/contract/kubernetes.md says the rest. Pure.
import type { Schedule, ScheduleSpec } from './schedule.ts';
import { type ZoneOffset, zoneOffset } from './zone-offset.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Later than that it finds nothing. */
const MOST_YEARS = 5;

interface Bounds {
  least: number;
  greatest: number;
  /** In order, from `least` on. */
  names?: readonly string[];
}

const MINUTES: Bounds = { least: 0, greatest: 59 };
const HOURS: Bounds = { least: 0, greatest: 23 };
const DAYS: Bounds = { least: 1, greatest: 31 };
const MONTH_NAMES = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const MONTHS: Bounds = { least: 1, greatest: 12, names: MONTH_NAMES };
const WEEKDAYS: Bounds = { least: 0, greatest: 6, names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] };

interface Field {
  values: ReadonlySet<number>;
  /** It has a star with all values. */
  isStar: boolean;
}

interface Fields {
  minute: Field;
  hour: Field;
  day: Field;
  month: Field;
  weekday: Field;
}

/** Undefined: Kubernetes takes no such expression, or the zone is not known. */
export function compileKubernetesSchedule({ cron, timeZone }: ScheduleSpec): Schedule | undefined {
  const fields = parseFields(cron);
  if (!fields) return undefined;
  try {
    const zone = zoneOffset(timeZone);
    return { nextAfter: (afterMs) => nextAfter(fields, new ZonedClock(zone, afterMs)) };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function parseFields(cron: string): Fields | undefined {
  const texts = cron.trim().split(/\s+/);
  if (texts.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = [MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS].map((bounds, index) =>
    parseField(texts[index] ?? '', bounds),
  );
  return minute && hour && day && month && weekday ? { minute, hour, day, month, weekday } : undefined;
}

function parseField(text: string, bounds: Bounds): Field | undefined {
  const values = new Set<number>();
  let isStar = false;
  for (const part of text.split(',').filter((one) => one !== '')) {
    const range = parseRange(part, bounds);
    if (!range) return undefined;
    const { from, to, step } = range;
    for (let value = from; value <= to; value += step) values.add(value);
    isStar ||= range.isStar;
  }
  return { values, isStar };
}

function parseRange(text: string, { least, greatest, names }: Bounds) {
  const [bounds = '', stepText, ...more] = text.split('/');
  const [low = '', high, ...others] = bounds.split('-');
  const step = stepText === undefined ? 1 : parseNumber(stepText);
  if (more.length > 0 || others.length > 0 || !step) return undefined;
  if (low === '*' || low === '?') return { from: least, to: greatest, step, isStar: step === 1 };
  const from = parseNumber(low, names, least);
  // "5/15" means "5-59/15".
  const to =
    high === undefined ? (stepText === undefined ? from : greatest) : parseNumber(high, names, least);
  if (from === undefined || to === undefined || from < least || to > greatest || from > to) return undefined;
  return { from, to, step, isStar: false };
}

function parseNumber(text: string, names: readonly string[] = [], least = 0): number | undefined {
  const index = names.indexOf(text.toLowerCase());
  if (index >= 0) return least + index;
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

/** A field that does not match is raised until it does; where it begins again, the greater ones are looked at again. */
function nextAfter(fields: Fields, clock: ZonedClock): number | undefined {
  const lastYear = clock.year + MOST_YEARS;
  clock.toNextSecond();
  while (clock.year <= lastYear) {
    const isDay = raiseMonth(fields, clock) && raiseDay(fields, clock);
    if (isDay && raiseHour(fields, clock) && raiseMinute(fields, clock) && raiseSecond(clock))
      return clock.ms;
  }
  return undefined;
}

function raiseMonth({ month }: Fields, clock: ZonedClock): boolean {
  while (!month.values.has(clock.month)) {
    clock.beginOf('month');
    clock.addDate({ months: 1 });
    if (clock.month === 1) return false;
  }
  return true;
}

function raiseDay(fields: Fields, clock: ZonedClock): boolean {
  while (!matchesDay(fields, clock)) {
    clock.beginOf('day');
    clock.addDate({ days: 1 });
    // Midnight does not exist: one hour on or back.
    if (clock.hour !== 0) clock.add((clock.hour > 12 ? 24 - clock.hour : -clock.hour) * HOUR_MS);
    if (clock.day === 1) return false;
  }
  return true;
}

function matchesDay({ day, weekday }: Fields, clock: ZonedClock): boolean {
  const [isDay, isWeekday] = [day.values.has(clock.day), weekday.values.has(clock.weekday)];
  return day.isStar || weekday.isStar ? isDay && isWeekday : isDay || isWeekday;
}

function raiseHour({ hour }: Fields, clock: ZonedClock): boolean {
  while (!hour.values.has(clock.hour)) {
    clock.beginOf('hour');
    clock.add(HOUR_MS);
    if (clock.hour === 0) return false;
  }
  return true;
}

function raiseMinute({ minute }: Fields, clock: ZonedClock): boolean {
  while (!minute.values.has(clock.minute)) {
    clock.beginOf('minute');
    clock.add(MINUTE_MS);
    if (clock.minute === 0) return false;
  }
  return true;
}

/** A schedule has the second 0: a later second is of the next minute, which is looked at again. */
function raiseSecond(clock: ZonedClock): boolean {
  if (clock.second === 0) return true;
  clock.beginOf('second');
  clock.add((60 - clock.second) * 1000);
  return false;
}

type Unit = 'month' | 'day' | 'hour' | 'minute' | 'second';

/** A moment that is read in a zone, and moved as Go's `time` moves it. */
class ZonedClock {
  readonly #zone: ZoneOffset;
  ms: number;
  /** The fields of the local time, as if it were UTC. */
  #local: Date;
  /** What is below the field that was raised first is at its beginning, once. */
  #isRaised: boolean = false;

  constructor(zone: ZoneOffset, ms: number) {
    this.#zone = zone;
    this.ms = ms;
    this.#local = new Date(ms + zone.at(ms));
  }

  get year(): number {
    return this.#local.getUTCFullYear();
  }
  get month(): number {
    return this.#local.getUTCMonth() + 1;
  }
  get day(): number {
    return this.#local.getUTCDate();
  }
  get weekday(): number {
    return this.#local.getUTCDay();
  }
  get hour(): number {
    return this.#local.getUTCHours();
  }
  get minute(): number {
    return this.#local.getUTCMinutes();
  }
  get second(): number {
    return this.#local.getUTCSeconds();
  }

  add(spanMs: number): void {
    this.#set(this.ms + spanMs);
  }

  toNextSecond(): void {
    this.#set(Math.floor(this.ms / 1000) * 1000 + 1000);
  }

  addDate({ months = 0, days = 0 }: { months?: number; days?: number }): void {
    const { year, month, day, hour, minute, second } = this;
    this.#setLocal(Date.UTC(year, month - 1 + months, day + days, hour, minute, second));
  }

  beginOf(unit: Unit): void {
    if (this.#isRaised) return;
    this.#isRaised = true;
    const { year, month, day, hour } = this;
    if (unit === 'month') this.#setLocal(Date.UTC(year, month - 1, 1));
    else if (unit === 'day') this.#setLocal(Date.UTC(year, month - 1, day));
    else if (unit === 'hour') this.#setLocal(Date.UTC(year, month - 1, day, hour));
    else if (unit === 'minute') this.#set(Math.floor(this.ms / MINUTE_MS) * MINUTE_MS);
  }

  /** As `time.Date`: of a local time that does not exist, or that comes twice, by the offset of one of the two sides. */
  #setLocal(localMs: number): void {
    const guessMs = this.#zone.at(localMs);
    this.#set(localMs - (guessMs === 0 ? 0 : this.#zone.at(localMs - guessMs)));
  }

  #set(ms: number): void {
    this.ms = ms;
    this.#local = new Date(ms + this.#zone.at(ms));
  }
}
