// Monitors: what a caller states, what a patch may change, what is read back (docs/contract/monitors.md).
// monitor-patch.ts merges a patch into a stored configuration.
import { z } from 'zod';
import { UNAVAILABLE_REASONS } from '../../domain/callback.ts';
import { MONITOR_DEFAULTS } from '../../domain/defaults.ts';
import { HEALTHS, LIFECYCLES } from '../../domain/monitor.ts';
import {
  atMost,
  identifier,
  integer,
  jurisdiction,
  labelKey,
  labels,
  labelValue,
  MAX_LABELS,
  MAX_SAFE,
  maintenanceWindow,
  measurementKey,
  text,
  timestamp,
  YEAR_SECONDS,
} from '../fields/field.ts';
import { hintsForUnknown } from '../fields/field-errors.ts';
import { observation } from './beat.ts';
import { bindingInput, bindingRecord } from './binding.ts';
import { signingSecret } from './callback.ts';
import { openIncident } from './incident.ts';
import { maintenanceSchedules, maintenanceSchedulesRecord } from './maintenance-schedule.ts';
import { MAX_MEASUREMENTS, measurementRulePatch, measurementRuleRecord } from './measurement-rule.ts';
import { beatenBy } from './operator.ts';
import { monitorOrigin, monitorOriginInput } from './origin.ts';
import { scheduleInput, schedulePatch, scheduleRecord } from './schedule.ts';

/** Floors that a development run lowers (docs/contract/development.md). The published contract has 60. */
export interface ContractLimits {
  minimumIntervalSeconds: number;
}
export const PUBLISHED_LIMITS: ContractLimits = { minimumIntervalSeconds: 60 };

/** The default is no lower than the floor. */
export function defaultGraceSeconds({ minimumIntervalSeconds }: ContractLimits): number {
  return Math.max(MONITOR_DEFAULTS.graceSeconds, minimumIntervalSeconds);
}

export const lifecycle = z.enum(LIFECYCLES);
export const health = z.enum(HEALTHS);

/** The fields of a configuration without defaults and nulls, shared with the custom resource. */
export function monitorFields({ minimumIntervalSeconds }: ContractLimits) {
  return {
    name: text({ minimum: 1, maximum: 160 }),
    description: text({ minimum: 0, maximum: 1000, multiline: true }),
    labels: labels.describe('Labels to filter by, in Kubernetes syntax.'),
    intervalSeconds: integer(minimumIntervalSeconds, YEAR_SECONDS).describe(
      'How often a beat is expected. Without it and without `schedule` the monitor measures its own cadence.',
    ),
    graceSeconds: integer(0, YEAR_SECONDS)
      .overwrite((seconds) => Math.max(seconds, minimumIntervalSeconds))
      .describe(`Lateness tolerated. Lower values are raised to ${minimumIntervalSeconds}.`),
    awaitFirstBeat: z
      .boolean()
      .describe('True: no deadline runs before the first beat. False: the clock starts at creation.'),
    maxRuntimeSeconds: integer(1, 604_800).describe('After a start, a success must follow within this time.'),
    recoveryBeats: integer(1, 10).describe('Successes in a row that end an incident.'),
    missedBeatsToOpen: integer(1, 10).describe('Deadlines missed in a row that open an incident.'),
  };
}

const exclusiveMessage = 'State either intervalSeconds or schedule, not both.';

export interface CadenceFields {
  intervalSeconds?: number | null;
  schedule?: object | null;
}

/** The fault of a configuration with both cadences (docs/contract/monitors.md). */
export function cadenceFault({ intervalSeconds, schedule }: CadenceFields) {
  const both = typeof intervalSeconds === 'number' && schedule !== undefined && schedule !== null;
  if (!both) return undefined;
  return { path: ['schedule'], code: 'mutually_exclusive', message: exclusiveMessage };
}

function refuseTwoCadences(fields: CadenceFields, context: z.RefinementCtx): void {
  const fault = cadenceFault(fields);
  if (!fault) return;
  context.addIssue({
    code: 'custom',
    path: fault.path,
    message: fault.message,
    params: { code: fault.code },
  });
}

/** POST /v1/monitors. Defaults are filled in: the handler gets a complete configuration. */
export function createMonitorBody(limits: ContractLimits) {
  const fields = monitorFields(limits);
  return z
    .strictObject(
      {
        monitorId: identifier
          .optional()
          .describe('Chosen by the caller. Default: one that the service makes.'),
        name: fields.name,
        description: fields.description.optional(),
        labels: fields.labels.default({}),
        intervalSeconds: fields.intervalSeconds.optional(),
        schedule: scheduleInput.optional().describe('Exclusive with `intervalSeconds`.'),
        graceSeconds: fields.graceSeconds.default(defaultGraceSeconds(limits)),
        jurisdiction: jurisdiction.default('unrestricted').describe('Cannot change later.'),
        callback: bindingInput.default({ kind: 'organization_default' }),
        awaitFirstBeat: fields.awaitFirstBeat.default(MONITOR_DEFAULTS.awaitFirstBeat),
        maxRuntimeSeconds: fields.maxRuntimeSeconds.optional(),
        recoveryBeats: fields.recoveryBeats.default(MONITOR_DEFAULTS.recoveryBeats),
        missedBeatsToOpen: fields.missedBeatsToOpen.default(MONITOR_DEFAULTS.missedBeatsToOpen),
        maintenanceSchedules: maintenanceSchedules.optional(),
        origin: monitorOriginInput.optional(),
      },
      {
        error: hintsForUnknown({
          measurements: 'Remove it: set rules afterwards, with PATCH /v1/monitors/{monitorId}.',
        }),
      },
    )
    .superRefine(refuseTwoCadences);
}

/** What a monitor has and a patch does not change, each with the way to change it. */
const UNPATCHED = {
  callback: 'Remove it: PUT /v1/monitors/{monitorId}/callback sets the binding.',
  jurisdiction: 'Remove it: the jurisdiction of a monitor cannot change.',
  monitorId: 'Remove it: the ID of a monitor cannot change.',
  origin: 'Remove it: the operator sets the origin, with PUT /v1/monitors/{monitorId}/origin.',
  beatenBy: 'Remove it: the operator sets it, and DELETE /v1/monitors/{monitorId}/beaten-by clears it.',
  lifecycle: 'Remove it: POST /v1/monitors/{monitorId}/lifecycle changes it.',
  publishUrl: 'Remove it: POST /v1/monitors/{monitorId}/publish-url/rotate makes a new address.',
};

/** PATCH /v1/monitors/{monitorId}: RFC 7396 inside `patch`; null restores the default. */
export function updateMonitorBody(limits: ContractLimits) {
  const fields = monitorFields(limits);
  const patch = z
    .strictObject(
      {
        name: fields.name.optional(),
        description: fields.description.nullable().optional(),
        labels: z
          .record(labelKey, labelValue.nullable())
          .superRefine(atMost(2 * MAX_LABELS, 'labels in one patch'))
          .meta({ maxProperties: 2 * MAX_LABELS })
          .nullable()
          .optional(),
        intervalSeconds: fields.intervalSeconds.nullable().optional(),
        schedule: schedulePatch.nullable().optional(),
        graceSeconds: fields.graceSeconds.nullable().optional(),
        awaitFirstBeat: fields.awaitFirstBeat.nullable().optional(),
        maxRuntimeSeconds: fields.maxRuntimeSeconds.nullable().optional(),
        recoveryBeats: fields.recoveryBeats.nullable().optional(),
        missedBeatsToOpen: fields.missedBeatsToOpen.nullable().optional(),
        maintenanceSchedules: maintenanceSchedules.nullable().optional(),
        measurements: z
          .record(measurementKey, measurementRulePatch.nullable())
          .superRefine(atMost(2 * MAX_MEASUREMENTS, 'measurements in one patch'))
          .meta({ maxProperties: 2 * MAX_MEASUREMENTS })
          .nullable()
          .optional()
          .describe('Rules by measurement key, which judge each accepted success.'),
      },
      { error: hintsForUnknown(UNPATCHED) },
    )
    .superRefine(refuseTwoCadences)
    .describe('Omitted fields keep their values; null goes back to the default or removes.');
  const outside = Object.keys(patch.shape).map((field) => [field, 'State it inside of patch.']);
  return z.strictObject({ patch }, { error: hintsForUnknown(Object.fromEntries(outside)) });
}
export type MonitorPatch = z.output<ReturnType<typeof updateMonitorBody>>['patch'];

export const monitorStatus = z.object({
  health,
  firstBeatAt: timestamp.optional(),
  lastBeatAt: timestamp.optional(),
  lastSequence: integer(0, MAX_SAFE).optional().describe('The sequence of the newest observation.'),
  lastDurationSeconds: z
    .number()
    .min(0)
    .optional()
    .describe('How long the newest run took that has ended and whose start was reported.'),
  nextDeadlineAt: timestamp.optional(),
  cadence: z.object({
    source: z.enum(['configured', 'schedule', 'learning', 'learned']),
    intervalSeconds: z.number().min(0).optional(),
    sampleCount: integer(0, MAX_SAFE).optional(),
  }),
  maintenance: maintenanceWindow
    .optional()
    .describe('The window that runs or comes next; of a schedule at most 30 days ahead.'),
  openIncidents: z.array(openIncident),
});
export type MonitorStatus = z.output<typeof monitorStatus>;

export const monitor = z.object({
  monitorId: identifier,
  monitorKey: identifier.meta({ deprecated: true, description: 'Deprecated spelling of `monitorId`.' }),
  projectId: z.string(),
  name: z.string(),
  description: z.string().optional(),
  labels: z.record(z.string(), z.string()),
  intervalSeconds: integer(1, YEAR_SECONDS).optional(),
  schedule: scheduleRecord.optional(),
  graceSeconds: integer(0, YEAR_SECONDS),
  jurisdiction,
  callback: bindingRecord,
  awaitFirstBeat: z.boolean(),
  maxRuntimeSeconds: integer(1, 604_800).optional(),
  recoveryBeats: integer(1, 10).describe('Successes in a row that end an incident.'),
  missedBeatsToOpen: integer(1, 10).describe('Deadlines missed in a row that open an incident.'),
  maintenanceSchedules: maintenanceSchedulesRecord.optional(),
  measurements: z
    .record(z.string(), measurementRuleRecord)
    .describe('Rules by measurement key, which judge each accepted success.'),
  origin: monitorOrigin.optional(),
  beatenBy: beatenBy.optional(),
  lifecycle,
  maintenance: maintenanceWindow
    .optional()
    .describe(
      'The window that `enter_maintenance` has set, until it is over. `status.maintenance` is the one that runs.',
    ),
  restorableUntil: timestamp.optional().describe('Reported on an archived monitor.'),
  publishUrl: z
    .string()
    .optional()
    .describe('Address to send beats to. A secret: shown to principals that may manage.'),
  configurationVersion: integer(1, MAX_SAFE).describe('The ETag is `configuration-<configurationVersion>`.'),
  createdAt: timestamp,
  updatedAt: timestamp,
  status: monitorStatus,
});
export type Monitor = z.output<typeof monitor>;

export const createdMonitor = z.object({
  ...monitor.shape,
  replayed: z.boolean(),
  signingSecret: signingSecret.optional().describe('Of an inline binding. Shown once; a replay has none.'),
  binding: z
    .object({ unavailableReason: z.enum(UNAVAILABLE_REASONS) })
    .optional()
    .describe(
      'Why alerts go nowhere as it stands now. Absent where the binding leads to an endpoint, or is disabled.',
    ),
});

export const monitorWithObservation = z.object({
  ...monitor.shape,
  latestObservation: observation.optional().describe('Absent before the first beat.'),
});

export const rotatePublishUrlBody = z.strictObject({
  overlapSeconds: integer(0, 86_400).default(0).describe('How long the old address stays valid.'),
});
export const rotatePublishUrlResult = z.object({
  publishUrl: z.string().optional().describe('The new address. A replay leaves it out.'),
  replayed: z.boolean(),
  previousUrlEndsAt: timestamp.optional(),
});
