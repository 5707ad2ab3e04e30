// Why a monitor is in its state, and what comes next (docs/contract/monitors.md).
import { z } from 'zod';
import { BEAT_KINDS } from '../../domain/beat.ts';
import { DEADLINE_PARTS, SILENCE_REASONS } from '../../domain/explain/situation.ts';
import { identifier, integer, MAX_SAFE, timestamp } from '../fields/field.ts';
import { health } from './monitor.ts';

const lastBeat = z.object({
  receivedAt: timestamp,
  sequence: integer(1, MAX_SAFE).optional().describe('Counts from 1 without gaps for each monitor.'),
  kind: z.enum(BEAT_KINDS).optional().describe('Absent where the observation is no longer kept.'),
});

const deadlinePart = z.object({
  kind: z.enum(DEADLINE_PARTS),
  at: timestamp.optional(),
  seconds: z.number().optional().describe('What this part adds.'),
  note: z.string(),
});

const explainedRule = z
  .object({
    measurement: z.string(),
    rule: z.string(),
    lastValue: z.number().optional().describe('In the unit of the measurement.'),
    bound: z.union([z.number(), z.enum(['zero', 'nonzero'])]).describe('In the unit of the measurement.'),
    violationsInRow: integer(0, MAX_SAFE).describe('How many of the newest observations break the rule.'),
    opensAt: integer(1, 10).describe('How many in a row open an incident.'),
  })
  .describe('The state of a rule.');

const silence = z.object({
  reason: z
    .enum(SILENCE_REASONS)
    .describe('`dependency` and `rule_inactive` are reserved: they do not occur in this version.'),
  until: timestamp.optional(),
  note: z.string(),
});

export const explanation = z.object({
  monitorId: identifier,
  at: timestamp.describe('The moment that the answer is about.'),
  health,
  because: z.string().describe('Why, in one sentence. Times are in UTC.'),
  lastBeat: lastBeat.optional().describe('The newest beat but for logs.'),
  deadline: z
    .object({
      at: timestamp.optional().describe('Absent while no deadline runs.'),
      parts: z
        .array(deadlinePart)
        .describe('From the time of the first part on, the seconds of the others add up to the deadline.'),
    })
    .describe('When the running silence is an incident, unless a beat comes before.'),
  rules: z.array(explainedRule).describe('Always empty in this version: rules are not evaluated yet.'),
  silence: z.array(silence).describe('Everything that keeps an alert from being sent.'),
});
