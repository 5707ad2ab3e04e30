// The body of an alert that a webhook receives (docs/contract/callbacks.md). Described for receivers; src/delivery writes it.
import { z } from 'zod';
import { identifier, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { deliveryEvent } from './delivery.ts';
import { incident, incidentState } from './incident.ts';

export const alertEvent = z
  .object({
    type: deliveryEvent,
    timestamp,
    data: z.object({
      organizationId: z.string(),
      projectId: z.string(),
      projectName: z.string().optional(),
      incident: incident.optional(),
      monitor: z
        .object({
          monitorId: identifier,
          name: z.string(),
          labels: z.record(z.string(), z.string()),
          lastBeatAt: timestamp.optional(),
          nextDeadlineAt: timestamp.optional(),
        })
        .optional(),
      sequence: integer(1, MAX_SAFE).optional().describe('Counts from 1 without gaps in each incident.'),
      previousState: incidentState.optional(),
      endpointId: identifier.optional().describe('Of `callback.test`.'),
    }),
  })
  .describe('At most 16 KiB. The same bytes on every attempt.');
