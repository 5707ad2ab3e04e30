// Paging and the query parameters that lists share (docs/contract/calls.md).
import { z } from 'zod';
import { integer, jurisdiction, patterned, timestamp } from './field.ts';

const limit = integer(1, 200).default(50).describe('How many items a page has at most.');
export const cursor = patterned(
  /^[A-Za-z0-9][A-Za-z0-9._~:/+-]{0,511}$/,
  512,
  'Must be the nextCursor of an earlier page.',
).describe('The `nextCursor` of the page before.');

/** Of the status feed: a position in each database. */
export const feedCursor = patterned(
  /^[A-Za-z0-9][A-Za-z0-9._~:/+-]{0,3071}$/,
  3_072,
  'Must be the nextCursor of an earlier call of the status feed.',
).describe('The `nextCursor` of the call before.');

export const pageQuery = { limit, cursor: cursor.optional() };

export const jurisdictionQuery = {
  jurisdiction: jurisdiction
    .optional()
    .describe('Says which monitor is meant where one ID exists in more than one jurisdiction.'),
};

export const waitSeconds = integer(0, 30)
  .default(0)
  .describe('How long to hold the request open until there is something to answer.');

export const rangeQuery = {
  since: timestamp.optional().describe('From this time on, included.'),
  until: timestamp.optional().describe('Up to this time, excluded.'),
};

/** For `superRefine` of a query with `since` and `until`. */
export function refuseReversedRange(
  { since, until }: { since?: string; until?: string },
  context: z.RefinementCtx,
): void {
  if (since === undefined || until === undefined || Date.parse(since) <= Date.parse(until)) return;
  context.addIssue({
    code: 'custom',
    path: ['until'],
    message: 'Must not be before since.',
    params: { code: 'ends_before_start' },
  });
}

/** `{items, nextCursor?}`: no `nextCursor` means the last page. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item).max(200),
    nextCursor: z.string().optional().describe('Absent on the last page.'),
  });
}
