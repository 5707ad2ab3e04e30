// The status feed: monitors that changed after a cursor, for the operator and dashboards.
import { HEADER } from '../../contract/fields/headers.ts';
import { invalidField } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import { type FeedScope, type FeedWatch, readFeed } from '../../service/monitors/status-feed.ts';
import { NO_PROJECT } from '../auth/admission.ts';
import type { Principal } from '../auth/principal.ts';
import type { Handlers } from '../operation.ts';
import { decodeFeedCursor, encodeFeedCursor } from '../paging/feed-cursor.ts';
import { presentFeedItem } from '../present/present-monitor.ts';

export function statusFeedHandlers(watch: FeedWatch): Handlers<'getStatusFeed'> {
  return {
    getStatusFeed: async (call) => {
      const { cursor, limit, waitSeconds } = call.input.query;
      const { items, next } = await readFeed(call.db, watch, {
        scope: scopeOf(call),
        cursor: cursor === undefined ? undefined : decodeFeedCursor(cursor),
        limit,
        waitSeconds,
        signal: call.signal,
      });
      const { publicUrl: publishBaseUrl } = call.context;
      return {
        body: {
          items: items.map(presentFeedItem),
          nextCursor: encodeFeedCursor(next),
          hasMore: next.listing !== undefined,
          publishBaseUrl,
        },
      };
    },
  };
}

/** The operator sees all projects, or the one that it names. Other callers must have a project. */
function scopeOf({ caller, principal }: { caller: Caller; principal: Principal }): FeedScope {
  const { organizationId, projectId } = caller;
  if (projectId !== NO_PROJECT) return { organizationId, projectId };
  if (principal.role === 'operator') return { organizationId };
  throw invalidField(HEADER.project, 'Name one project of the organization, by its id or name.', 'required');
}
