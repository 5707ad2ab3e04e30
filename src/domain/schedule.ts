// Cron schedules: five fields and an IANA zone, computed by croner. No clock of its own: times are passed in.
import { Cron } from 'croner';

export interface ScheduleSpec {
  cron: string;
  timeZone: string;
}

/** A compiled schedule. `nextAfter`: the first occurrence strictly after `afterMs`, undefined when there is none. */
export interface Schedule {
  nextAfter(afterMs: number): number | undefined;
}

/** An invalid expression or zone. `isNeverDue`: the expression is well formed, but its day does not exist. */
export class ScheduleError extends RangeError {
  readonly isNeverDue: boolean;

  constructor(message: string, options: { isNeverDue: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = 'ScheduleError';
    this.isNeverDue = options.isNeverDue;
  }
}

/** Compiles a schedule once, so that a beat pays only for the next occurrence. Throws `ScheduleError`. */
export function compileSchedule(spec: ScheduleSpec): Schedule {
  const { cron, first } = parse(spec);
  if (first === null) throw new ScheduleError('The schedule never comes due.', { isNeverDue: true });
  return { nextAfter: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() };
}

function parse(spec: ScheduleSpec): { cron: Cron; first: Date | null } {
  try {
    // The mode accepts nicknames and dates, which do not have five fields.
    if (spec.cron.trim().split(/\s+/).length !== 5) throw new RangeError('It does not have five fields.');
    const cron = new Cron(spec.cron, { timezone: spec.timeZone, paused: true, mode: '5-part' });
    // An unknown zone throws only here.
    return { cron, first: cron.nextRun() };
  } catch (cause) {
    throw new ScheduleError('This is not a schedule of five fields in a known time zone.', {
      isNeverDue: false,
      cause,
    });
  }
}
