// Change records of a monitor (docs/contract/monitors.md).
import { z } from 'zod';
import { actor, correlationId, integer, MAX_SAFE, maintenanceWindow, timestamp } from '../fields/field.ts';
import { lifecycleAction } from './lifecycle.ts';
import { lifecycle } from './monitor.ts';

const common = {
  actor,
  configurationVersion: integer(0, MAX_SAFE),
  occurredAt: timestamp,
  sourceRequestId: correlationId.optional(),
};

export const monitorChange = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('configuration'), ...common }),
  z.object({
    kind: z.literal('lifecycle'),
    ...common,
    action: lifecycleAction,
    lifecycleFrom: lifecycle,
    lifecycleTo: lifecycle,
    maintenance: maintenanceWindow.optional(),
  }),
]);
export type MonitorChange = z.output<typeof monitorChange>;
