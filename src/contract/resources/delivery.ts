// Deliveries of alerts, their attempts, and the body that a receiver gets (docs/contract/callbacks.md).
import { z } from 'zod';
import { DELIVERY_EVENTS, DELIVERY_STATES } from '../../domain/callback.ts';
import { MOST_COUNTED } from '../../domain/dependency.ts';
import { identifier, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { incident, incidentState } from './incident.ts';
import { operatorCause } from './operator-causes.ts';
import { monitorOrigin } from './origin.ts';

export const deliveryState = z.enum(DELIVERY_STATES);
const deliveryEvent = z.enum(DELIVERY_EVENTS);

export const delivery = z.object({
  deliveryId: identifier,
  endpointId: identifier,
  incidentId: identifier.optional(),
  monitorId: identifier.optional(),
  event: deliveryEvent,
  state: deliveryState,
  sequence: integer(1, MAX_SAFE).optional().describe('Counts from 1 without gaps in each incident.'),
  attemptCount: integer(0, MAX_SAFE),
  createdAt: timestamp,
  nextAttemptAt: timestamp.optional(),
  deliveredAt: timestamp.optional(),
  redeliveryOf: identifier.optional(),
});
export type Delivery = z.output<typeof delivery>;

const deliveryAttempt = z.object({
  at: timestamp,
  statusCode: integer(100, 599).optional().describe("The HTTP status of the receiver's answer."),
  latencyMs: integer(0, MAX_SAFE).optional(),
  error: z
    .string()
    .optional()
    .describe('A class such as `timeout`, `connection_refused`, `tls`, `destination_rejected`.'),
});

export const deliveryWithAttempts = z.object({ ...delivery.shape, attempts: z.array(deliveryAttempt) });

/** The body of an alert, described for receivers. src/delivery writes it. */
export const alertEvent = z
  .object({
    type: deliveryEvent,
    timestamp,
    data: z.object({
      organizationId: z.string(),
      projectId: z.string(),
      projectName: z.string().optional(),
      incident: incident.optional(),
      cause: z
        .object({
          cause: operatorCause,
          object: z.string().describe('The node, the namespace, the image, or `<namespace>/<quota>`.'),
          monitors: integer(1, MAX_SAFE).describe('How many monitors it concerns.'),
        })
        .optional()
        .describe(
          'The cause as the operator sees it: incidents of other monitors that it concerns send no alert to this endpoint.',
        ),
      monitor: z
        .object({
          monitorId: identifier,
          name: z.string(),
          labels: z.record(z.string(), z.string()),
          lastBeatAt: timestamp.optional(),
          nextDeadlineAt: timestamp.optional(),
          origin: monitorOrigin.optional(),
          dependents: integer(1, MOST_COUNTED)
            .optional()
            .describe(
              'How many active monitors depend on it, directly or through others; 1,000 stands for more too.',
            ),
        })
        .optional(),
      sequence: integer(1, MAX_SAFE).optional().describe('Counts from 1 without gaps in each incident.'),
      previousState: incidentState.optional(),
      truncated: z.array(z.string()).optional().describe('What was cut so that the body has at most 16 KiB.'),
      endpointId: identifier.optional().describe('Of `callback.test`.'),
    }),
  })
  .describe('At most 16 KiB. The same bytes on every attempt.');
export type AlertEvent = z.output<typeof alertEvent>;
