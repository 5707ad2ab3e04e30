// Beats as they arrive on a publish address and what is answered (docs/contract/beats.md). Described here for the
// contract and for clients; src/ingest reads beats on a path of its own.
import { z } from 'zod';
import { identifier, integer, MAX_SAFE, measurementKey, timestamp } from '../fields/field.ts';
import { beatKind, violation } from './observation.ts';

export const beatBody = z
  .strictObject({
    measurements: z.record(measurementKey, z.number()).optional(),
    message: z.string().max(1024).optional(),
    observedAt: timestamp.optional().describe("The sender's clock: kept, and never moves a deadline."),
    status: beatKind.optional(),
    runId: identifier.optional().describe('Ties the start and the end of one run together.'),
    exitStatus: integer(0, 255).optional().describe('Other than 0 without a `status`: a `fail`.'),
  })
  .describe('Unknown fields are refused. An empty body is a success.');

export const beatAnswer = z.object({
  accepted: z.literal(true),
  monitorId: identifier,
  sequence: integer(1, MAX_SAFE),
  receivedAt: timestamp,
  nextDeadlineAt: timestamp.optional(),
  violations: z.array(violation),
});
