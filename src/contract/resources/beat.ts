// Beats on a publish address, their answers, and accepted beats as observations (docs/contract/beats.md). src/ingest reads
// beats without these schemas: domain/beat-input.ts does, and test/contract/beat-body.test.ts holds the two together.
import { z } from 'zod';
import { BEAT_KINDS, BEAT_STATUSES } from '../../domain/beat.ts';
import { identifier, integer, MAX_SAFE, measurementKey, timestamp } from '../fields/field.ts';
import { incidentChange } from './incident.ts';
import { fieldError } from './problem.ts';

const beatKind = z.enum(BEAT_KINDS);

const VIOLATIONS =
  'The rules that this success breaks, those of inactive rules too. Other kinds of beats are not judged.';

const violation = z.object({
  measurement: z.string(),
  rule: z.string(),
  bound: z
    .union([z.number(), z.enum(['zero', 'nonzero'])])
    .describe('The limit that was crossed, or what was expected.'),
  value: z.number().describe('What was compared: the value, the difference, the percentage or the ratio.'),
});

export const observation = z.object({
  sequence: integer(1, MAX_SAFE).describe('Counts from 1 without gaps for each monitor.'),
  kind: beatKind,
  receivedAt: timestamp,
  observedAt: timestamp.optional(),
  measurements: z.record(z.string(), z.number()),
  durationSeconds: z
    .number()
    .min(0)
    .optional()
    .describe('From the start of the run that the beat ends, by `observedAt` where both state it.'),
  exitStatus: z.int().optional().describe('0 is a success.'),
  message: z.string().optional(),
  runId: z.string().optional(),
  late: z
    .boolean()
    .describe('It came after the deadline. (The health `late` is before it: overdue, inside the grace.)'),
  violations: z.array(violation).describe(VIOLATIONS),
});
export type Observation = z.output<typeof observation>;

export const beatBody = z
  .strictObject({
    measurements: z
      .record(measurementKey, z.number())
      .optional()
      .describe(
        'Numbers by key, kept with the observation. Those of a success are judged by the rules of the monitor.',
      ),
    message: z.string().max(1024).optional().describe('A longer one is refused and not cut.'),
    observedAt: timestamp
      .optional()
      .describe(
        "The sender's clock: kept, and never moves a deadline. Where start and end of a run both state it, `durationSeconds` is the time between them.",
      ),
    status: z
      .enum(BEAT_STATUSES)
      .optional()
      .describe(
        '`cancel`: the run neither succeeded nor failed. It closes the open run of its `runId`, is recorded as a `log` and moves nothing.',
      ),
    runId: identifier.optional().describe('Ties the start and the end of one run together.'),
    exitStatus: integer(0, 255).optional().describe('Other than 0 without a `status`: a `fail`.'),
  })
  .describe('Unknown fields are refused. An empty body is a success.');

export const beatAnswer = z.object({
  accepted: z.literal(true),
  monitorId: identifier,
  sequence: integer(1, MAX_SAFE).describe('Counts from 1 without gaps for each monitor.'),
  receivedAt: timestamp,
  nextDeadlineAt: timestamp.optional(),
  violations: z.array(violation).describe(VIOLATIONS),
});

export const beatTest = z.object({
  accepted: z.boolean().describe('False: the publish address would refuse this beat.'),
  violations: z.array(violation).describe(VIOLATIONS),
  incidentChanges: z.array(incidentChange),
  fieldErrors: z
    .array(fieldError)
    .max(32)
    .describe(
      'Why it would be refused; empty where it would be accepted. A refusal that concerns no field has the path `body` and the code of the problem.',
    ),
});

export const firstBeat = z.object({
  state: z.enum(['waiting', 'accepted']),
  firstBeatAt: timestamp.optional(),
  nextDeadlineAt: timestamp.optional(),
});
