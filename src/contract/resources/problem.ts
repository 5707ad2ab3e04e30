// The body of every error: application/problem+json (docs/contract/calls.md). The codes are in src/domain/problem.ts.
import { z } from 'zod';
import { LIMIT_DIMENSIONS, LIMIT_REMEDIATIONS, PLAN_IDS, SERVICE_STATES } from '../../domain/problem.ts';
import { identifier, integer, jurisdiction, MAX_SAFE } from '../fields/field.ts';

const reference = z.string().min(1).max(512).regex(/^\S+$/);
const sentence = z.string().min(1).max(512);
const count = integer(0, MAX_SAFE);

export const fieldError = z.object({
  code: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/),
  message: sentence,
  path: z
    .string()
    .max(256)
    .describe(
      "Dots from the body's root; headers and query parameters as they are named; `body` for the body as a whole.",
    ),
});

export const planName = z.object({
  id: z.enum(PLAN_IDS),
  name: z.string().min(1).max(64),
  version: integer(1, MAX_SAFE).describe('Raised when the plan changes.'),
});

export const problemLimit = z.object({
  dimension: z
    .enum(LIMIT_DIMENSIONS)
    .describe(
      'What the refusal is about. `mcp_requests_per_minute` is reserved: this version refuses nothing by it.',
    ),
  limit: count.optional().describe('What the plan allows, in the unit of the dimension.'),
  current: count.optional().describe('What is used.'),
  attempted: count.optional().describe('What the call would have made of it.'),
  plan: planName.optional(),
  serviceState: z.enum(SERVICE_STATES).optional(),
  remediation: z
    .enum(LIMIT_REMEDIATIONS)
    .describe(
      'What helps. `retry_after_refresh`: the same call again. `contact_support`: whoever runs the installation, also where no plan is larger. `export_data`: reads and the export still work.',
    ),
});

export const problem = z.object({
  type: reference.optional().describe('`/docs/problems/<code without prefix>`.'),
  title: z.string().min(1).max(160),
  status: integer(400, 599).describe('The HTTP status.'),
  detail: z.string().min(1).max(1024).describe('A sentence that says what to do.'),
  code: z
    .string()
    .min(1)
    .max(128)
    .regex(/^service\.[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$/),
  correlationId: z.string().min(1).max(128),
  retryable: z.boolean(),
  retryAfterSeconds: integer(1, 86_400).optional().describe('Only where `retryable` is true.'),
  instance: reference.optional().describe('Reserved: this version does not send it.'),
  fieldErrors: z.array(fieldError).max(32).optional(),
  remediation: z
    .array(z.object({ code: z.string().min(1).max(128), message: sentence, documentation: sentence }))
    .max(8)
    .optional()
    .describe('What helps, with the page that says more: a path below the address of the API.'),
  limit: problemLimit.optional(),
  monitorId: identifier.optional().describe('Of `service.origin_taken`: the monitor that has the origin.'),
  endpointId: identifier.optional().describe('Of `service.origin_taken`: the endpoint that has the origin.'),
  jurisdiction: jurisdiction
    .optional()
    .describe('Of `service.temporarily_unavailable`: the jurisdiction whose database is away.'),
});
export type Problem = z.output<typeof problem>;
