// Lifecycle actions of a monitor, and the maintenance window of `enter_maintenance` (docs/contract/monitors.md).
import { z } from 'zod';
import { LIFECYCLE_ACTIONS } from '../../domain/lifecycle.ts';
import { reason, timestamp } from '../fields/field.ts';

export const lifecycleAction = z.enum(LIFECYCLE_ACTIONS);
const MAX_MAINTENANCE_SECONDS = 30 * 86_400;

/** A window that ends after its start and lasts at most 30 days. The service checks by the database's clock that its end is in the future. */
export const maintenanceInput = z
  .strictObject({ startsAt: timestamp, endsAt: timestamp, reason: reason.optional() })
  .superRefine(({ startsAt, endsAt }, context) => {
    const seconds = (Date.parse(endsAt) - Date.parse(startsAt)) / 1000;
    const refuse = (code: string, message: string) =>
      context.addIssue({ code: 'custom', path: ['endsAt'], message, params: { code } });
    if (!(seconds > 0)) refuse('ends_before_start', 'Must be after startsAt.');
    if (seconds > MAX_MAINTENANCE_SECONDS)
      refuse('window_too_long', 'Must be at most 30 days after startsAt.');
  });

export const lifecycleBody = z
  .strictObject({
    action: lifecycleAction,
    maintenance: maintenanceInput.optional().describe('Required for `enter_maintenance`, and only there.'),
  })
  .superRefine(({ action, maintenance }, context) => {
    const needed = action === 'enter_maintenance';
    if (needed === (maintenance !== undefined)) return;
    context.addIssue({
      code: 'custom',
      path: ['maintenance'],
      message: needed
        ? 'State the window: startsAt and endsAt.'
        : 'Remove this: only enter_maintenance takes a window.',
      params: { code: needed ? 'required' : 'not_applicable' },
    });
  });
