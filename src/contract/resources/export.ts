// The export: what an organization, or a project of it, has, as a stream of records (docs/contract/organization.md).
import { z } from 'zod';
import { identifier, integer, jurisdiction, MAX_SAFE, timestamp } from '../fields/field.ts';
import { cursor } from '../fields/paging.ts';
import { observation } from './beat.ts';
import { callbackEndpoint } from './callback.ts';
import { incident } from './incident.ts';
import { monitor } from './monitor.ts';
import { project } from './project.ts';
import { seriesBucket } from './series.ts';

/** Records from one checkpoint to the next, at most. */
export const MOST_BETWEEN_CHECKPOINTS = 1_000;

/** Why an export does not begin. */
export const MANY_EXPORTS =
  'The organization, or this credential or session, has as many exports under way as this process runs at one time: wait for one of them to end, then try again.';

/** What is wrong with a cursor that no checkpoint of this export has. */
export const FOREIGN_CHECKPOINT =
  'Must be the cursor of a checkpoint of the same export: format, project and includeObservationBuckets as before.';

export const EXPORT_FORMATS = ['ndjson', 'csv'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];
export const EXPORT_TYPES = {
  ndjson: 'application/x-ndjson',
  csv: 'text/csv',
} as const satisfies Record<ExportFormat, string>;

const type = <const Name extends string>(name: Name) => ({ type: z.literal(name) });
const ofMonitor = { projectId: z.string(), monitorId: identifier, jurisdiction };
const omitted = { reason: z.string().describe('Why there are none, and what to do.') };
const count = integer(0, MAX_SAFE);

/** A line of the stream `application/x-ndjson`. */
export const exportRecord = z.discriminatedUnion('type', [
  z.object({
    ...type('export.started'),
    organizationId: z.string(),
    projectId: z.string().optional().describe('Of an export of one project.'),
    startedAt: timestamp.describe('All that was committed before is in the export.'),
    observationsFrom: timestamp.describe(
      'Observations from this time on, and the hours before it. Of several databases the latest one: another one may have observations from before it in place of hours.',
    ),
  }),
  project.extend(type('project')),
  callbackEndpoint.extend(type('endpoint')).describe('Of a `url` the origin alone.'),
  monitor.extend(type('monitor')).describe('Without `publishUrl`.'),
  incident.extend(type('incident')),
  observation.extend({ ...type('observation'), ...ofMonitor }),
  seriesBucket
    .extend({ ...type('observation_bucket'), ...ofMonitor, measurement: z.string() })
    .describe('An hour of observations that are not kept any more.'),
  z.object({ ...type('observation_bucket.omitted'), ...omitted }),
  z.object({
    ...type('usage'),
    period: z.string().describe('The month in UTC: `2026-11`.'),
    activeMonitors: count.describe('The most at the end of a day.'),
    beats: count.describe('Those that were recorded.'),
    deliveries: count.describe('Those that were made.'),
    storedObservations: count.describe('The most at the end of a day.'),
    apiRequests: count.describe('Those that count for the rate limit.'),
  }),
  z.object({ ...type('usage.omitted'), ...omitted }),
  z.object({
    ...type('checkpoint'),
    cursor: z.string().describe('Pass it as `cursor` to go on from here.'),
    complete: z.boolean().describe('True on the last line: nothing is missing.'),
  }),
]);
export type ExportRecord = z.output<typeof exportRecord>;

/** The columns of `text/csv`. */
export const EXPORT_COLUMNS = [
  'projectId',
  'monitorId',
  'jurisdiction',
  'sequence',
  'kind',
  'receivedAt',
  'observedAt',
  'durationSeconds',
  'exitStatus',
  'runId',
  'late',
  'message',
  'measurements',
  'violations',
  'cursor',
] as const;

export const exportTable = z
  .string()
  .describe(
    `Observations alone, by RFC 4180. The columns: ${EXPORT_COLUMNS.map((name) => `\`${name}\``).join(', ')}. A row with a cursor alone is no observation: none has come for ten seconds.`,
  );

export const exportQuery = {
  format: z
    .enum(EXPORT_FORMATS)
    .optional()
    .describe(
      '`csv`: observations alone, as a table. Without it, what `Accept` prefers, else `ndjson`; with it, `Accept` has to admit it.',
    ),
  cursor: cursor
    .optional()
    .describe('Of a checkpoint of the same export: it goes on from there. State the other parameters again.'),
  includeObservationBuckets: z
    .boolean()
    .default(false)
    .describe(
      'Adds the hours of observations that are not kept any more, and of the oldest day, on a paid plan. Not with `csv`.',
    ),
};
