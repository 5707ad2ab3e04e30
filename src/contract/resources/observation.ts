// Observations: beats that were accepted (docs/contract/beats.md).
import { z } from 'zod';
import { BEAT_KINDS } from '../../domain/beat.ts';
import { integer, MAX_SAFE, timestamp } from '../fields/field.ts';

export const beatKind = z.enum(BEAT_KINDS);

export const violation = z.object({
  measurement: z.string(),
  rule: z.string(),
  bound: z.union([z.number(), z.enum(['zero', 'nonzero'])]).describe('The limit crossed.'),
  value: z.number().describe('What was compared.'),
});

export const observation = z.object({
  sequence: integer(1, MAX_SAFE).describe('Counts from 1 without gaps for each monitor.'),
  kind: beatKind,
  receivedAt: timestamp,
  observedAt: timestamp.optional(),
  measurements: z.record(z.string(), z.number()),
  durationSeconds: z.number().min(0).optional(),
  exitStatus: z.int().optional(),
  message: z.string().optional(),
  runId: z.string().optional(),
  late: z.boolean().describe('It came after the deadline.'),
  violations: z.array(violation),
});
export type Observation = z.output<typeof observation>;
