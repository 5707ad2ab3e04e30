// The status feed: monitors whose visible state changed after a cursor (docs/contract/monitors.md).
import { z } from 'zod';
import { identifier, integer, jurisdiction, MAX_SAFE } from '../fields/field.ts';
import { lifecycle, monitorStatus } from './monitor.ts';
import { beatenBy } from './operator.ts';
import { monitorOrigin } from './origin.ts';

export const statusFeedItem = z.object({
  monitorId: identifier,
  projectId: z.string(),
  projectName: z.string(),
  changeSequence: integer(0, MAX_SAFE).describe('Grows with each visible change of the monitor.'),
  lifecycle,
  configurationVersion: integer(1, MAX_SAFE).describe('The ETag is `configuration-<version>`.'),
  origin: monitorOrigin.optional(),
  beatenBy: beatenBy.optional(),
  status: monitorStatus,
  because: z
    .string()
    .optional()
    .describe(
      'Why the monitor is in its state, in one sentence: that of `explain`, with the day of each time.',
    ),
});
export type StatusFeedItem = z.output<typeof statusFeedItem>;

export const statusFeed = z.object({
  items: z.array(statusFeedItem),
  nextCursor: z.string().describe('Always there: pass it as `cursor` in the next call.'),
  hasMore: z
    .boolean()
    .describe(
      'Whether more follows: call again at once with `nextCursor`, also after a page with few items or none.',
    ),
  away: z
    .array(jurisdiction)
    .optional()
    .describe(
      'Jurisdictions whose database is away: their monitors are missing. The feed goes on with them once it is back, from where it was.',
    ),
  publishBaseUrl: z
    .string()
    .describe(
      'What publish addresses begin with, before `/ping/`. One that begins otherwise is to be read again.',
    ),
});
