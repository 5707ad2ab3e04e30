// Incidents and their timeline (docs/contract/incidents.md).
import { z } from 'zod';
import { INCIDENT_CHANGES, INCIDENT_KINDS, INCIDENT_STATES, TIMELINE_TYPES } from '../../domain/incident.ts';
import { actor, identifier, integer, MAX_SAFE, note, severity, timestamp } from '../fields/field.ts';
import { operatorCause } from './operator-causes.ts';

const incidentKind = z
  .enum(INCIDENT_KINDS)
  .describe(
    'What is wrong: no beat in time, a failure that the job reported, a run without an end, or a measurement that breaks a rule.',
  );
export const incidentState = z.enum(INCIDENT_STATES);

export const openIncident = z.object({
  incidentId: identifier,
  kind: incidentKind,
  state: incidentState,
  severity,
  openedAt: timestamp,
});

const OF_RULES = 'Of `rule_violation`.';

export const incident = z.object({
  incidentId: identifier,
  projectId: z.string(),
  monitorId: identifier,
  kind: incidentKind,
  state: incidentState,
  severity,
  measurement: z.string().optional().describe(OF_RULES),
  rule: z.string().optional().describe(OF_RULES),
  openedAt: timestamp.describe('The moment of commit.'),
  deadlineAt: timestamp.optional().describe('The deadline that was missed.'),
  recoveringAt: timestamp.optional(),
  recoveredAt: timestamp.optional(),
  resolvedAt: timestamp.optional(),
  acknowledgedAt: timestamp.optional(),
  acknowledgedBy: actor.optional(),
  openSequence: integer(0, MAX_SAFE).optional().describe('The observation that opened it.'),
  lastSequence: integer(0, MAX_SAFE).optional().describe('The newest observation that concerned it.'),
  violationCount: integer(0, MAX_SAFE),
  suppressedBy: z
    .union([
      z.object({ monitorId: identifier, incidentId: identifier }),
      z.object({ cause: operatorCause, object: z.string() }),
    ])
    .optional()
    .describe(
      'The cause, at a monitor that this one depends on or as the operator sees it: no alert of this incident was sent.',
    ),
  suppresses: integer(1, MAX_SAFE)
    .optional()
    .describe('How many incidents of monitors that depend on this one sent no alert because of it.'),
  summary: z.string().describe('What opened it, in words; of one that is over it says so first.'),
});
export type Incident = z.output<typeof incident>;

export const incidentChange = z.object({
  kind: incidentKind,
  change: z
    .enum(INCIDENT_CHANGES)
    .describe(
      '`open`: it opens, or a recovering one opens again. `escalate`: it gets graver. `recover`: this beat ends it.',
    ),
  measurement: z.string().optional().describe(OF_RULES),
  rule: z.string().optional().describe(OF_RULES),
  severity: severity.optional(),
});

export const timelineEntry = z.object({
  at: timestamp,
  type: z.enum(TIMELINE_TYPES),
  from: z.string().optional(),
  to: z.string().optional(),
  actor: actor.optional(),
  note: z.string().optional(),
  delivery: z
    .looseObject({ deliveryId: identifier })
    .optional()
    .describe('The delivery that this entry is about.'),
  detail: z
    .record(z.string(), z.unknown())
    .optional()
    .describe(
      'For a service outage: `from` and `to`, and `refusedBeats` if beats of this monitor were refused. For an incident that opens while the object of its monitor is gone: `origin`.',
    ),
});
export type TimelineEntry = z.output<typeof timelineEntry>;

export const incidentActionBody = z.strictObject({ note: note.optional() });
export const incidentNoteBody = z.strictObject({ note });
