// The status feed: monitors that changed after a cursor, for the operator and dashboards.
import { HEADER } from '../../contract/fields/headers.ts';
import { invalidField } from '../../domain/problem.ts';
import type { Caller } from '../../service/calls/context.ts';
import { DEFAULT_NAME, nameOfHome } from '../../service/calls/home-names.ts';
import { withMonitors } from '../../service/calls/homes.ts';
import { type FeedHome, type JoinedFeed, readJoinedFeed } from '../../service/monitors/joined-feed.ts';
import { type FeedScope, type FeedWatch, readFeed } from '../../service/monitors/status-feed.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { NO_PROJECT } from '../auth/admission.ts';
import type { Principal } from '../auth/principal.ts';
import type { Handlers } from '../operation.ts';
import { decodeJoinedCursor, encodeFeedCursor, encodeJoinedCursor } from '../paging/feed-cursor.ts';
import { presentFeedItem } from '../present/present-monitor.ts';

type FeedCall = Parameters<Handlers<'getStatusFeed'>['getStatusFeed']>[0];

export function statusFeedHandlers(watchOf: (pool: Pool) => FeedWatch): Handlers<'getStatusFeed'> {
  return {
    getStatusFeed: async (call) => {
      const { items, cursor, hasMore, away } = await readAny(call, watchOf);
      return {
        body: {
          items: items.map(presentFeedItem),
          nextCursor: cursor,
          hasMore,
          publishBaseUrl: call.context.publicUrl,
          away: away.length > 0 ? [...away] : undefined,
        },
      };
    },
  };
}

interface AnyFeed extends Pick<JoinedFeed, 'items' | 'hasMore' | 'away'> {
  cursor: string;
}

async function readAny(call: FeedCall, watchOf: (pool: Pool) => FeedWatch): Promise<AnyFeed> {
  const { cursor: text, limit, waitSeconds } = call.input.query;
  const cursors = text === undefined ? undefined : decodeJoinedCursor(text);
  const request = { context: call.context, scope: scopeOf(call), limit, waitSeconds, signal: call.signal };
  if (call.homes.length === 1) {
    const cursor = cursors?.get(DEFAULT_NAME);
    const { items, next } = await readFeed(call.db, watchOf(call.home.pool), { ...request, cursor });
    return { items, cursor: encodeFeedCursor(next), hasMore: next.listing !== undefined, away: [] };
  }
  const homes: FeedHome[] = withMonitors(call.homes).map((home) => ({
    ...home,
    name: nameOfHome(call.homes, home),
    watch: watchOf(home.pool),
  }));
  const { next, ...feed } = await readJoinedFeed(homes, { ...request, cursors });
  return { ...feed, cursor: encodeJoinedCursor(next) };
}

/** The operator sees all projects, or the one that it names. Other callers must have a project. */
function scopeOf({ caller, principal }: { caller: Caller; principal: Principal }): FeedScope {
  const { organizationId, projectId } = caller;
  if (projectId !== NO_PROJECT) return { organizationId, projectId };
  if (principal.role === 'operator') return { organizationId };
  throw invalidField(HEADER.project, 'Name one project of the organization, by its id or name.', 'required');
}
