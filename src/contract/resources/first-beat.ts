// Waiting for the first beat of a monitor (docs/contract/beats.md).
import { z } from 'zod';
import { integer, timestamp } from '../fields/field.ts';

export const waitSeconds = integer(0, 30)
  .default(0)
  .describe('How long to hold the request open until there is something to answer.');

export const firstBeat = z.object({
  state: z.enum(['waiting', 'accepted']),
  firstBeatAt: timestamp.optional(),
  nextDeadlineAt: timestamp.optional(),
});
