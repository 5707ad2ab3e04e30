// Maintenance windows that come again and again (docs/contract/monitors.md).
import { z } from 'zod';
import { SCHEDULE_TIME_ZONE } from '../../domain/defaults.ts';
import { hasLongRow, type MaintenanceSchedule, MOST_JOINED } from '../../domain/maintenance.ts';
import { integer, reason } from '../fields/field.ts';
import { cron, scheduleRecord, timeZone } from './schedule.ts';

export const MAX_MAINTENANCE_SCHEDULES = 8;
const durationSeconds = integer(60, 604_800).describe('How long each window lasts.');

const LONG_ROW = `more than ${MOST_JOINED} windows follow each other without a break: leave one, or state one longer window.`;

const maintenanceSchedule = z.strictObject({
  cron,
  timeZone: timeZone.default(SCHEDULE_TIME_ZONE),
  durationSeconds,
  reason: reason.optional(),
});

export const maintenanceSchedules = z
  .array(maintenanceSchedule)
  .max(MAX_MAINTENANCE_SCHEDULES)
  .superRefine((schedules, context) => {
    const refuse = (path: (string | number)[], message: string) =>
      context.addIssue({ code: 'custom', path, message, params: { code: 'no_break' } });
    // What is refused for another reason, or too many to be asked, is not judged.
    if (schedules.length > MAX_MAINTENANCE_SCHEDULES || !schedules.every(isWhole)) return;
    const long = schedules.findIndex((schedule) => hasLongRow([schedule]));
    if (long >= 0) refuse([long, 'durationSeconds'], `Of this schedule ${LONG_ROW}`);
    else if (hasLongRow(schedules)) refuse([], `Of these schedules together ${LONG_ROW}`);
  })
  .describe('Maintenance windows, one at each time of a schedule. Windows that overlap or touch are one.');

/** As they are stored. */
export type MaintenanceSchedules = z.output<typeof maintenanceSchedules>;

export const maintenanceSchedulesRecord = z
  .array(
    z.object({
      ...scheduleRecord.shape,
      durationSeconds: integer(60, 604_800),
      reason: z.string().min(1).max(256).optional(),
    }),
  )
  .describe('Maintenance windows, one at each time of a schedule.');

function isWhole({ durationSeconds: seconds, ...spec }: MaintenanceSchedule): boolean {
  if (!(seconds >= 60 && seconds <= 604_800)) return false;
  return cron.safeParse(spec.cron).success && timeZone.safeParse(spec.timeZone).success;
}
