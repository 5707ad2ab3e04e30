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
    lastValue: z.number().optional().describe('The measurement as a success sent it last.'),
    bound: z
      .union([z.number(), z.enum(['zero', 'nonzero'])])
      .describe('Of a ratio with two bounds the one that is crossed, else the upper one.'),
    violationsInRow: integer(0, MAX_SAFE).describe(
      'How many of the newest successes break the rule, of 200 at most.',
    ),
    opensAt: integer(1, 10)
      .optional()
      .describe('How many in a row open an incident. Absent where time alone opens it, or nothing does.'),
  })
  .describe('The state of a rule.');

const silence = z.object({
  reason: z
    .enum(SILENCE_REASONS)
    .describe('`dependency`: the alert of a cause stands for it, or it is not known yet whether it does.'),
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
    .describe('The deadline of the running silence that passes next, unless a beat comes before.'),
  rules: z
    .array(explainedRule)
    .describe('Each rule of the monitor, as the successes up to the moment have left it.'),
  silence: z.array(silence).describe('Everything that keeps an alert from being sent.'),
});
