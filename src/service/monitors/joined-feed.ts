// The status feed over several databases: a cursor in each, read at the same time. One that is away keeps its cursor and holds
// up no other: the feed says whose it is, and goes on there once it answers.
import { setTimeout as delay } from 'node:timers/promises';
import type { Jurisdiction } from '../../domain/monitor.ts';
import { askHome, jurisdictionAway, type SharedHome } from '../calls/homes.ts';
import {
  type ExplainedItem,
  type Feed,
  type FeedCursor,
  type FeedRequest,
  type FeedWatch,
  pauseOf,
  readPage,
} from './status-feed.ts';

/** A call does not wait longer while a database is away: then it is asked again. */
const AWAY_WAIT_MS = 2_000;

export interface FeedHome extends SharedHome {
  /** In cursors. */
  name: string;
  watch: FeedWatch;
}

/** By the name of the database. Absent: nothing of it was shown. */
export type FeedCursors = ReadonlyMap<string, FeedCursor>;

export interface JoinedFeed {
  items: ExplainedItem[];
  next: FeedCursors;
  hasMore: boolean;
  /** Whose monitors are not in it. */
  away: readonly Jurisdiction[];
}

export interface JoinedRequest extends Omit<FeedRequest, 'cursor'> {
  cursors?: FeedCursors;
}

/** As `readFeed`, of all databases. Throws only where all are away. */
export async function readJoinedFeed(
  homes: readonly FeedHome[],
  request: JoinedRequest,
): Promise<JoinedFeed> {
  const { cursors, signal } = request;
  const heldMs = request.waitSeconds * 1000;
  const pauseMs = Math.max(0, ...[...(cursors?.values() ?? [])].map((cursor) => pauseOf(cursor, heldMs)));
  if (pauseMs > 0) await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  const feed = await readPages(homes, request, cursors ?? new Map());
  const mayWait = cursors !== undefined && feed.items.length === 0 && !feed.hasMore;
  const waitMs = Math.min(heldMs - pauseMs, feed.away.length > 0 ? AWAY_WAIT_MS : heldMs);
  if (!mayWait || waitMs <= 0) return feed;
  const { hasChanged, next } = await waitForAny(homes, request, { feed, waitMs });
  return hasChanged ? await readPages(homes, request, next) : { ...feed, next };
}

/** A page of each, at most `limit` items together. One that has no room is read again by the next call. */
async function readPages(
  homes: readonly FeedHome[],
  request: JoinedRequest,
  cursors: FeedCursors,
): Promise<JoinedFeed> {
  const limit = Math.max(1, Math.floor(request.limit / homes.length));
  const pages = await Promise.all(
    homes.map(async (home) => ({
      home,
      asked: await askHome(home, (db) => readPage(db, { ...request, limit }, cursors.get(home.name))),
    })),
  );
  const next = new Map(cursors);
  const items: ExplainedItem[] = [];
  const away: Jurisdiction[] = [];
  let hasMore = false;
  let present = 0;
  for (const { home, asked } of startedAnywhere(pages)) {
    if ('fault' in asked) {
      away.push(...home.jurisdictions);
      continue;
    }
    present += 1;
    const page: Feed = asked.found;
    if (items.length + page.items.length > request.limit) hasMore = true;
    else {
      items.push(...page.items);
      next.set(home.name, page.next);
      hasMore ||= page.next.listing !== undefined;
    }
  }
  const [first] = homes;
  if (first && present === 0) throw jurisdictionAway(first);
  return { items, next, hasMore, away };
}

/** Each has its turn to be the first, where not all have room. */
function startedAnywhere<Page>(pages: readonly Page[]): Page[] {
  const start = Math.floor(Math.random() * pages.length);
  return [...pages.slice(start), ...pages.slice(0, start)];
}

/** Waits until something changes in one of the databases. `next`: nothing has changed up to there. */
async function waitForAny(
  homes: readonly FeedHome[],
  { scope, signal }: JoinedRequest,
  { feed, waitMs }: { feed: JoinedFeed; waitMs: number },
): Promise<{ hasChanged: boolean; next: FeedCursors }> {
  const found = new AbortController();
  const hold = { waitMs, signal: AbortSignal.any([signal, found.signal]) };
  const next = new Map(feed.next);
  let hasChanged = false;
  await Promise.all(
    homes.map(async ({ name, watch, reachability }) => {
      const cursor = feed.next.get(name);
      // Inside a listing that a database which went away has interrupted.
      if (!cursor || cursor.listing || reachability.isAway()) return;
      const watched = { scope, history: cursor.history, since: cursor.snapshot };
      // One that fails is away: the next page says so.
      const changed = await watch.wait(watched, hold).catch(() => undefined);
      next.set(name, { ...cursor, snapshot: watched.since });
      if (!changed) return;
      hasChanged = true;
      found.abort();
    }),
  );
  return { hasChanged, next };
}
