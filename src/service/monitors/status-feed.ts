// The status feed: monitors whose visible state changed after a cursor; a call is held open until one has changed
// (docs/contract/monitors.md). A cursor from before a restore or a failover starts again with every monitor: the feed
// repeats changes and never skips one.
import { setTimeout as delay } from 'node:timers/promises';
import type { FeedMoment } from '../../store/monitors/feed-moment.ts';
import { haveChanged } from '../../store/monitors/feed-poll.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import { type FeedScope, readFeedPage, type Snapshot } from '../../store/monitors/status-feed.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';
import { SharedPoller } from '../calls/shared-poller.ts';
import { type ExplainedItem, explainItems } from './feed-reasons.ts';

const POLL_MS = 200;
/** A cursor that was cut shows changes again and again: a caller that follows it does so no more often. */
const CUT_PAUSE_MS = 1_000;

export type { ExplainedItem, FeedScope, Snapshot };

export interface FeedCursor {
  /** The history of transactions that the snapshots belong to. */
  history: string;
  /** What has been shown at the end of the listing. */
  snapshot: Snapshot;
  /**
   * Set inside a listing: the last monitor that it looked at, and the snapshot since which it lists changes (absent: every
   * monitor).
   */
  listing?: { after: MonitorRef; since?: Snapshot };
}

export interface Feed {
  items: ExplainedItem[];
  next: FeedCursor;
}

interface Watched {
  scope: FeedScope;
  history: string;
  /** Nothing in the scope has changed up to here. Each query moves it on, so that the next one reads what is new. */
  since: Snapshot;
}

export type FeedWatch = SharedPoller<Watched, true>;

/** One for each process: all waiting calls share its query. */
export function createFeedWatch(db: Queryable): FeedWatch {
  return new SharedPoller({
    everyMs: POLL_MS,
    poll: async (subjects) => {
      const { changed, moment: now } = await haveChanged(db, subjects);
      return subjects.map((subject, index) => {
        const { history, since: snapshot } = subject;
        // Its page begins the other history.
        if (changed[index] || isForeign({ history, snapshot }, now)) return true;
        subject.since = now.snapshot;
        return undefined;
      });
    },
  });
}

export interface FeedRequest {
  context: Pick<ServiceContext, 'minimumIntervalSeconds'>;
  scope: FeedScope;
  cursor?: FeedCursor;
  limit: number;
  /** As in FeedQuery. */
  stretch?: number;
  waitSeconds: number;
  signal: AbortSignal;
}

/**
 * The next page after the cursor; without one the first page of every monitor. It waits only where nothing has changed, or
 * the cursor was cut, and never inside a listing, where a page may be empty. Changes that happen during a listing come after
 * it.
 */
export async function readFeed(db: Database, watch: FeedWatch, request: FeedRequest): Promise<Feed> {
  const { cursor, signal } = request;
  const heldMs = request.waitSeconds * 1000;
  const pauseMs = pauseOf(cursor, heldMs);
  if (pauseMs > 0) await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  const feed = await readPage(db, request, cursor);
  const mayWait = cursor !== undefined && feed.items.length === 0 && !feed.next.listing;
  if (!mayWait || request.waitSeconds === 0) return feed;
  const { history, snapshot } = feed.next;
  const watched = { scope: request.scope, history, since: snapshot };
  const changed = await watch.wait(watched, { waitMs: heldMs - pauseMs, signal });
  const next = { ...feed.next, snapshot: watched.since };
  return changed ? await readPage(db, request, next) : { ...feed, next };
}

/** How long a call that may be held waits before it reads. */
export function pauseOf(cursor: FeedCursor | undefined, heldMs: number): number {
  const isRepeating = cursor?.snapshot.isCut && !cursor.listing;
  return isRepeating ? Math.min(heldMs, CUT_PAUSE_MS) : 0;
}

/** A page without a wait. */
export async function readPage(
  db: Database,
  request: Pick<FeedRequest, 'context' | 'scope' | 'limit' | 'stretch'>,
  cursor: FeedCursor | undefined,
): Promise<Feed> {
  const { scope, limit, stretch } = request;
  const since = cursor?.listing ? cursor.listing.since : cursor?.snapshot;
  const { history, snapshot, ...page } = await readFeedPage(db, {
    ...{ scope, since, limit, stretch },
    history: cursor?.history,
    after: cursor?.listing?.after,
  });
  if (cursor && isForeign(cursor, { history, snapshot })) return await readPage(db, request, undefined);

  const listing = page.next && { after: page.next, since };
  return {
    items: await explainItems(db, request.context, page.items),
    next: { history, snapshot: cursor?.listing ? cursor.snapshot : snapshot, listing },
  };
}

/** True also for a moment in the future of this history, which no reader can have seen. */
function isForeign(seen: FeedMoment, now: FeedMoment): boolean {
  return seen.history !== now.history || seen.snapshot.xmax > now.snapshot.xmax;
}
