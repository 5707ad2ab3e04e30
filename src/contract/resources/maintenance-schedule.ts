// Maintenance windows that come again and again (docs/contract/monitors.md).
import { z } from 'zod';
import { SCHEDULE_TIME_ZONE } from '../../domain/defaults.ts';
import { isEndless } from '../../domain/maintenance.ts';
import { ScheduleError } from '../../domain/schedule.ts';
import { integer, reason } from '../fields/field.ts';
import { cron, scheduleRecord, timeZone } from './schedule.ts';

export const MAX_MAINTENANCE_SCHEDULES = 8;
const durationSeconds = integer(60, 604_800).describe('How long each window lasts.');

const maintenanceSchedule = z
  .strictObject({
    cron,
    timeZone: timeZone.default(SCHEDULE_TIME_ZONE),
    durationSeconds,
    reason: reason.optional(),
  })
  .superRefine((schedule, context) => {
    if (!neverEnds(schedule)) return;
    context.addIssue({
      code: 'custom',
      path: ['durationSeconds'],
      message: 'Must leave a break between the windows: this maintenance would never end.',
      params: { code: 'never_ends' },
    });
  });

export const maintenanceSchedules = z
  .array(maintenanceSchedule)
  .max(MAX_MAINTENANCE_SCHEDULES)
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

/** A schedule that is refused for another reason is not judged. */
function neverEnds(schedule: Parameters<typeof isEndless>[0]): boolean {
  try {
    return isEndless(schedule);
  } catch (error) {
    if (error instanceof ScheduleError) return false;
    throw error;
  }
}
