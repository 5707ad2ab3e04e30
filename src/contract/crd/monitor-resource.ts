// The Monitor custom resource: its spec and status as zod, with CEL rules (docs/contract/kubernetes.md, "Monitor").
import { z } from 'zod';
import { BINDING_KINDS } from '../../domain/callback.ts';
import {
  identifier,
  integer,
  jurisdiction,
  LABEL_KEY_PATTERN,
  labelValue,
  MAX_LABELS,
  MAX_SAFE,
  timestamp,
  YEAR_SECONDS,
} from '../fields/field.ts';
import { MAX_DEPENDENCIES } from '../resources/dependencies.ts';
import { openIncident } from '../resources/incident.ts';
import { MAX_MAINTENANCE_SCHEDULES } from '../resources/maintenance-schedule.ts';
import {
  type ContractLimits,
  health,
  lifecycle,
  monitorFields,
  monitorStatus,
} from '../resources/monitor.ts';
import { cron, timeZone } from '../resources/schedule.ts';
import {
  commonStatus,
  IMMUTABLE,
  localRef,
  objectName,
  pendingConditions,
  resourceAlias,
  resourceUrl,
  trimmedText,
  withRules,
  withSentence,
} from './resource-fields.ts';
import { resourceMeasurements } from './resource-measurements.ts';
import { celString } from './structural.ts';

const resourceSchedule = z.strictObject({
  cron: withSentence(cron, 'Must be a cron expression with five fields such as "0 2 * * *".'),
  timeZone: withSentence(timeZone, 'Must be an IANA time zone such as Europe/Berlin.')
    .optional()
    .describe('An IANA time zone such as Europe/Berlin. Default: UTC.'),
});

const resourceLabels = withRules(
  z
    .record(
      z.string(),
      withSentence(labelValue, 'Must be a Kubernetes label value: letters, digits, "-", "_" or ".".'),
    )
    .meta({ maxProperties: MAX_LABELS }),
  {
    rule: `self.all(key, size(key) <= 317 && key.matches(${celString(LABEL_KEY_PATTERN)}))`,
    message:
      'Use Kubernetes label keys: an optional DNS prefix and "/", then letters, digits, "-", "_" or ".".',
  },
);

const maintenance = withRules(
  z.strictObject({ startsAt: timestamp, endsAt: timestamp, reason: trimmedText(256, 'reason').optional() }),
  { rule: 'self.endsAt > self.startsAt', message: 'Set endsAt to a time after startsAt.' },
  {
    rule: "self.endsAt - self.startsAt <= duration('720h')",
    message: 'Set endsAt to at most 30 days after startsAt.',
  },
);

const maintenanceSchedule = z.strictObject({
  ...resourceSchedule.shape,
  durationSeconds: integer(60, 604_800).describe('How long each window lasts.'),
  reason: trimmedText(256, 'reason').optional().describe('Why, for people.'),
});

const callback = withRules(
  z.strictObject({
    kind: z.enum(BINDING_KINDS),
    alias: resourceAlias.optional().describe('Of `named`: an endpoint made elsewhere.'),
    callbackRef: localRef.optional().describe('Of `named`: a Callback in this namespace.'),
    url: resourceUrl.optional().describe('Of `inline`: a URL for this monitor alone.'),
  }),
  {
    rule: "self.kind != 'named' || has(self.alias) || has(self.callbackRef)",
    message:
      'Name the endpoint: the kind named needs callbackRef (a Callback of this namespace) or alias (an endpoint made elsewhere).',
  },
  {
    rule: '!has(self.alias) || !has(self.callbackRef)',
    message: 'Set either callbackRef or alias, not both.',
  },
  {
    rule: "self.kind == 'named' || (!has(self.alias) && !has(self.callbackRef))",
    message: 'Remove callbackRef and alias: only the kind named has them.',
  },
  { rule: "self.kind != 'inline' || has(self.url)", message: 'Set url: the kind inline needs it.' },
  { rule: "self.kind == 'inline' || !has(self.url)", message: 'Remove url: only the kind inline has it.' },
);

/** More than a CronJob keeps as a rule. */
export const MAX_REPORTED_RUNS = 50;

const workloadRef = withRules(
  z.strictObject({
    apiVersion: z.enum(['batch/v1', 'apps/v1']),
    kind: z.enum(['CronJob', 'Job', 'Deployment', 'StatefulSet', 'DaemonSet']),
    name: objectName,
  }),
  {
    rule: "(self.kind in ['CronJob', 'Job']) == (self.apiVersion == 'batch/v1')",
    message: 'Set apiVersion to batch/v1 for a CronJob or a Job, and to apps/v1 for the other kinds.',
  },
).describe(
  'The workload that beats. For a CronJob or a Job the operator sends the beats, and takes schedule, time zone and suspension of a CronJob. Others give name and labels, and send their beats themselves.',
);

const run = z.object({
  uid: z.string().max(64).describe('UID of the Job.'),
  started: timestamp.optional().describe('The start that was reported.'),
  ended: timestamp.optional().describe('The end that was reported.'),
  blocked: z.boolean().optional().describe('A fail said that it cannot start.'),
  pauses: integer(1, MAX_SAFE).optional().describe('How often it was suspended while it ran.'),
});

const reportedRuns = z.object({
  ref: z
    .string()
    .max(512)
    .optional()
    .describe('Which workload that was, `namespace/kind/name`; another one counts from when it is named.'),
  uid: z.string().max(64).optional().describe('UID of the CronJob.'),
  since: timestamp.describe('What ended before is not reported.'),
  lastScheduleTime: timestamp.optional().describe('Of the CronJob.'),
  lastSuccessfulTime: timestamp.optional().describe('When the newest Job completed that was reported.'),
  runs: z
    .array(run)
    .max(MAX_REPORTED_RUNS)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['uid'] })
    .optional()
    .describe('Jobs that were reported, while they are there or run.'),
});

/** `spec` of a Monitor. Fields with a default in the API have none here. */
export function monitorResourceSpec(limits: ContractLimits) {
  const fields = monitorFields(limits);
  return withRules(
    z.strictObject({
      name: trimmedText(160, 'name')
        .optional()
        .describe('Name of the monitor, for people. Default: metadata.name.'),
      description: fields.description.optional(),
      labels: resourceLabels
        .optional()
        .describe(
          'Labels of the monitor, by which lists are filtered. Default: metadata.labels but those of Kubernetes itself.',
        ),
      intervalSeconds: fields.intervalSeconds.optional(),
      schedule: resourceSchedule
        .optional()
        .describe(
          'When the job runs: a beat is expected at each of these times. Exclusive with `intervalSeconds`.',
        ),
      graceSeconds: integer(limits.minimumIntervalSeconds, YEAR_SECONDS)
        .optional()
        .describe('How much later than expected a beat may come. Default: 300.'),
      jurisdiction: withRules(jurisdiction, {
        rule: IMMUTABLE,
        message: 'Leave jurisdiction as it is: to change it, delete this Monitor and make another one.',
      }).optional(),
      awaitFirstBeat: fields.awaitFirstBeat.optional(),
      maxRuntimeSeconds: fields.maxRuntimeSeconds.optional(),
      recoveryBeats: fields.recoveryBeats.optional(),
      missedBeatsToOpen: fields.missedBeatsToOpen.optional(),
      lifecycle: lifecycle.optional(),
      maintenance: maintenance
        .optional()
        .describe('A window in which missed deadlines open no incident. Ignored once it is over.'),
      maintenanceSchedules: z
        .array(maintenanceSchedule)
        .max(MAX_MAINTENANCE_SCHEDULES)
        .meta({ 'x-kubernetes-list-type': 'atomic' })
        .optional()
        .describe(
          'Windows that come again and again, one at each of these times. Those of the annotation `beatkeeper.dev/maintenance` of the namespace come on top.',
        ),
      dependsOn: z
        .array(localRef)
        .max(MAX_DEPENDENCIES)
        .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] })
        .optional()
        .describe(
          'Monitors of this namespace and jurisdiction: while one of them is down, incidents of this one send no alert.',
        ),
      callback: callback.optional().describe('Where alerts go. Default: `{kind: organization_default}`.'),
      measurements: resourceMeasurements
        .optional()
        .describe('Rules on measurements, by measurement key: they judge each accepted success.'),
      workloadRef: workloadRef.optional(),
      publishSecretName: objectName
        .optional()
        .describe('The Secret that gets the publish address, key `url`. Default: `<name>-beat`.'),
      deletionPolicy: z
        .enum(['Archive', 'Delete', 'Orphan'])
        .default('Archive')
        .describe(
          'What becomes of the monitor when this object is deleted. An archived one can be restored for 30 days.',
        ),
    }),
    {
      rule: '!has(self.intervalSeconds) || !has(self.schedule)',
      message: 'Set either intervalSeconds or schedule, not both.',
    },
    {
      rule: "!has(self.schedule) || !has(self.workloadRef) || self.workloadRef.kind != 'CronJob'",
      message:
        'Remove schedule: a Monitor with a workloadRef to a CronJob takes the schedule of the CronJob.',
    },
    {
      rule: 'has(self.jurisdiction) == has(oldSelf.jurisdiction)',
      message:
        'Leave jurisdiction as it is, set or not: to change it, delete this Monitor and make another one.',
    },
  );
}
export type MonitorResourceSpec = z.output<ReturnType<typeof monitorResourceSpec>>;

/** How many open incidents a status lists: more than the API has of one monitor, and few enough to ask about each. */
export const MAX_OPEN_INCIDENTS = 25;

export const MONITOR_PENDING = pendingConditions(['Synced', 'Ready', 'Healthy']);

/** A Rule shows the message of one Monitor among its own words. */
export const MAX_REFUSAL_MESSAGE = 256;

const appliedRule = {
  name: z.string().describe('Name of the Rule.'),
  uid: z
    .string()
    .optional()
    .describe('UID of the Rule: another one of the same name has applied nothing yet.'),
  measurementKey: z.string().describe('The measurement that it is about.'),
  definitionHash: z.string().optional().describe('Of its definition.'),
};

/** `status` of a Monitor. It holds no secret. */
export const monitorResourceStatus = z.object({
  ...commonStatus(MONITOR_PENDING),
  monitorId: identifier.optional(),
  configurationVersion: integer(1, MAX_SAFE).optional(),
  health: z
    .enum([...health.options, 'unknown'])
    .optional()
    .describe('How the monitor is: the column HEALTH. `unknown` after an uninstall, until a new install.'),
  lifecycle: lifecycle.optional(),
  firstBeatAt: timestamp.optional(),
  lastBeatAt: timestamp
    .optional()
    .describe('When the last beat came. Written once a minute at most, unless something else changes too.'),
  nextDeadlineAt: timestamp.optional(),
  restorableUntil: timestamp.optional(),
  cadence: monitorStatus.shape.cadence.optional(),
  openIncidents: z
    .array(openIncident)
    .max(MAX_OPEN_INCIDENTS)
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['incidentId'] })
    .optional(),
  publishSecretRef: z.object({ name: objectName }).optional(),
  appliedRules: z
    .array(z.object(appliedRule))
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['measurementKey'] })
    .optional(),
  workload: reportedRuns
    .optional()
    .describe('What was reported of the Jobs of the workload: no run counts twice.'),
  refusedRules: z
    .array(
      z.object({
        ...appliedRule,
        reason: z.string().describe('A code of the API, or a word of the operator.'),
        message: z.string().max(MAX_REFUSAL_MESSAGE).describe('Why, in a sentence.'),
      }),
    )
    .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['measurementKey'] })
    .optional()
    .describe('Rules that the API refuses for this monitor. What they had applied before stays.'),
  display: z
    .object({
      deadline: z
        .string()
        .optional()
        .describe('`nextDeadlineAt`, or `missed <time>` after it has passed without a beat.'),
      interval: z.string().optional().describe('Such as `5m`, `cron 0 2 * * *`, `learned 1h`, `learning`.'),
      incident: z.string().optional().describe('The gravest open kind, and `+n` for more.'),
      callback: z.string().optional().describe('The alias, `default`, `inline` or `none`.'),
    })
    .optional()
    .describe('Texts for the columns of kubectl.'),
});
export type MonitorResourceStatus = z.output<typeof monitorResourceStatus>;
