// The status feed: monitors whose visible state changed after a cursor; a call is held open until one has changed
// (docs/contract/monitors.md). A cursor from before a restore or a failover starts again with every monitor: the feed
// repeats changes and never skips one.
import { createHash } from 'node:crypto';
import type { MonitorRef } from '../../store/monitors/live.ts';
import {
  type FeedItem,
  type FeedPage,
  type FeedScope,
  haveChanged,
  readFeedPage,
  type Snapshot,
} from '../../store/monitors/status-feed.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { SharedPoller } from '../calls/shared-poller.ts';

const POLL_MS = 200;

export type { FeedItem, FeedScope, Snapshot };

export interface FeedCursor {
  /** The history of transactions that the snapshots belong to. */
  history: string;
  /** What has been shown at the end of the listing. */
  snapshot: Snapshot;
  /** Set inside a listing: its last monitor, and the snapshot since which it lists changes (absent: every monitor). */
  listing?: { after: MonitorRef; since?: Snapshot };
}

export interface Feed {
  items: FeedItem[];
  next: FeedCursor;
}

interface Watched {
  scope: FeedScope;
  /** Nothing in the scope has changed up to here. Each query moves it on, so that the next one reads what is new. */
  since: Snapshot;
}

export type FeedWatch = SharedPoller<Watched, true>;

/** One for each process: all waiting calls share its query. */
export function createFeedWatch(db: Queryable): FeedWatch {
  return new SharedPoller({
    everyMs: POLL_MS,
    poll: async (subjects) => {
      const { changed, snapshot } = await haveChanged(db, subjects);
      return subjects.map((subject, index) => {
        if (changed[index]) return true;
        subject.since = snapshot;
        return undefined;
      });
    },
  });
}

export interface FeedRequest {
  scope: FeedScope;
  cursor?: FeedCursor;
  limit: number;
  waitSeconds: number;
  signal: AbortSignal;
}

/**
 * The next page after the cursor; without a cursor the first page of every monitor. It waits only when nothing has
 * changed, never inside a listing. A listing holds no snapshot open: each page reads the present state, and changes
 * that happen meanwhile come after the listing.
 */
export async function readFeed(db: Queryable, watch: FeedWatch, request: FeedRequest): Promise<Feed> {
  const feed = await readPage(db, request, request.cursor);
  const mayWait = request.cursor !== undefined && feed.items.length === 0 && !feed.next.listing;
  if (!mayWait || request.waitSeconds === 0) return feed;
  const watched = { scope: request.scope, since: feed.next.snapshot };
  const { waitSeconds, signal } = request;
  const changed = await watch.wait(watched, { waitMs: waitSeconds * 1000, signal });
  const next = { ...feed.next, snapshot: watched.since };
  return changed ? await readPage(db, request, next) : { ...feed, next };
}

async function readPage(db: Queryable, request: FeedRequest, cursor: FeedCursor | undefined): Promise<Feed> {
  const { scope, limit } = request;
  const since = cursor?.listing ? cursor.listing.since : cursor?.snapshot;
  const after = cursor?.listing?.after;
  const page = await readFeedPage(db, { scope, since, after, limit: limit + 1 });
  const history = historyToken(page.history);
  if (cursor && isForeign(cursor, history, page)) return await readPage(db, request, undefined);

  const snapshot = cursor?.listing ? cursor.snapshot : page.snapshot;
  const items = page.items.slice(0, limit);
  const last = items.at(-1)?.monitor;
  if (page.items.length <= limit || !last) return { items, next: { history, snapshot } };
  const { projectId, monitorKey } = last;
  return { items, next: { history, snapshot, listing: { after: { projectId, monitorKey }, since } } };
}

/** True also for a cursor from this history's future: a restore can keep the history's name. */
function isForeign(cursor: FeedCursor, history: string, page: FeedPage): boolean {
  return cursor.history !== history || cursor.snapshot.xmax > page.snapshot.xmax;
}

function historyToken(history: string): string {
  return createHash('sha256').update(history).digest('hex').slice(0, 16);
}
