// Cron schedules and time zones: their syntax, and that a schedule comes due at least once (docs/contract/monitors.md).
import { z } from 'zod';
import { SCHEDULE_TIME_ZONE } from '../../domain/defaults.ts';
import { compileSchedule, ScheduleError } from '../../domain/schedule.ts';
import { patterned } from '../fields/field.ts';

// Without "?", which would mean the minute of parsing, and without nicknames and dates, which have no five fields.
const CRON_PATTERN = '^[0-9A-Za-z*,/#-]+([ \\t]+[0-9A-Za-z*,/#-]+){4}$';
const TIME_ZONE_PATTERN = '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$';

const MAX_CRON = 128;

function isTimeZone(value: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: value });
    return true;
  } catch {
    return false;
  }
}

function cronFault(value: string): string | undefined {
  try {
    compileSchedule({ cron: value, timeZone: 'UTC' });
    return undefined;
  } catch (error) {
    return error instanceof ScheduleError && error.isNeverDue
      ? 'Must come due at least once: this day does not exist.'
      : 'Must be a cron expression with five valid fields such as "0 2 * * *".';
  }
}

const cronField = patterned(
  new RegExp(CRON_PATTERN),
  MAX_CRON,
  'Must be a cron expression with five fields such as "0 2 * * *".',
);
const timeZoneField = patterned(
  new RegExp(TIME_ZONE_PATTERN),
  64,
  'Must be an IANA time zone such as Europe/Berlin.',
);

export const cron = cronField
  .superRefine((value, context) => {
    if (value.length > MAX_CRON || !new RegExp(CRON_PATTERN).test(value)) return;
    const fault = cronFault(value);
    if (fault) context.addIssue({ code: 'custom', message: fault, params: { code: 'invalid_cron' } });
  })
  .describe('Five fields: minute, hour, day of month, month, day of week.');

export const timeZone = timeZoneField
  .refine(isTimeZone, {
    error: 'Must be an IANA time zone such as Europe/Berlin.',
    params: { code: 'invalid_time_zone' },
  })
  .describe('An IANA time zone.');

export const scheduleInput = z.strictObject({ cron, timeZone: timeZone.default(SCHEDULE_TIME_ZONE) });
export const schedulePatch = z.strictObject({
  cron: cron.optional(),
  timeZone: timeZone.nullable().optional().describe('An IANA time zone. Null goes back to UTC.'),
});
export const scheduleRecord = z.object({ cron: z.string(), timeZone: z.string() });
export type Schedule = z.output<typeof scheduleRecord>;
