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

/**
 * Compiles a schedule once, so that a beat pays only for the next occurrence.
 * Throws `RangeError` with a sentence for the user when the expression or the zone is not valid or never fires.
 */
export function compileSchedule(spec: ScheduleSpec): Schedule {
  if (spec.cron.trim().split(/\s+/).length !== 5) {
    throw new RangeError('must have five fields: minute, hour, day of month, month, day of week');
  }
  let cron: Cron;
  try {
    cron = new Cron(spec.cron, { timezone: spec.timeZone, paused: true, mode: '5-part' });
    if (cron.nextRun() === null) throw new RangeError('never fires');
  } catch (error) {
    throw new RangeError(`is not a schedule: ${(error as Error).message}`, { cause: error });
  }
  return { nextAfter: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() };
}
