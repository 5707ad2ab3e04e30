// The status feed: what changed after a cursor, for the operator and dashboards.
import { HEADER } from '../../contract/fields/headers.ts';
import type { StatusFeedItem } from '../../contract/resources/status-feed.ts';
import { invalidField } from '../../domain/problem.ts';
import {
  type FeedItem,
  type FeedScope,
  type FeedWatch,
  readFeed,
} from '../../service/monitors/status-feed.ts';
import { NO_PROJECT } from '../auth/admission.ts';
import { roleOf } from '../auth/principal.ts';
import type { Call, Handlers } from '../operation.ts';
import { decodeFeedCursor, encodeFeedCursor } from '../paging/feed-cursor.ts';
import { presentStatus } from '../present/present-monitor.ts';

export function statusFeedHandlers(watch: FeedWatch): Handlers<'getStatusFeed'> {
  return {
    getStatusFeed: async (call) => {
      const { cursor, limit, waitSeconds } = call.input.query;
      const { items, next } = await readFeed(call.context, watch, {
        scope: scopeOf(call),
        cursor: cursor === undefined ? undefined : decodeFeedCursor(cursor),
        limit,
        waitSeconds,
        signal: call.signal,
      });
      return { status: 200, body: { items: items.map(presentItem), nextCursor: encodeFeedCursor(next) } };
    },
  };
}

/** The operator sees all projects, or the one that it names; others must be in one. */
function scopeOf({ caller, principal }: Call<'getStatusFeed'>): FeedScope {
  const { organizationId, projectId } = caller;
  if (projectId !== NO_PROJECT) return { organizationId, projectId };
  if (roleOf(principal) === 'operator') return { organizationId };
  throw invalidField(HEADER.project, 'Name one project of the organization, by its id or name.', 'required');
}

function presentItem({ monitor, changeSequence }: FeedItem): StatusFeedItem {
  const { monitorId, projectId, projectName, lifecycle, configurationVersion } = monitor;
  const status = presentStatus(monitor);
  return { monitorId, projectId, projectName, changeSequence, lifecycle, configurationVersion, status };
}
