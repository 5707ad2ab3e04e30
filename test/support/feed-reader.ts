// A reader of the status feed that keeps what it was shown, and its cursor.
import { decodeFeedCursor, encodeFeedCursor } from '../../src/api/paging/feed-cursor.ts';
import {
  createFeedWatch,
  type Feed,
  type FeedScope,
  readFeed,
} from '../../src/service/monitors/status-feed.ts';
import type { Database } from '../../src/store/postgres/pool.ts';

export interface ReaderOptions {
  limit?: number;
  stretch?: number;
  waitSeconds?: number;
}

export class FeedReader {
  readonly #db: Database;
  readonly #scope: FeedScope;
  #cursor: string | undefined;
  /** The last sequence of each monitor, by its key, as it was shown last. */
  readonly shown = new Map<string, number>();

  constructor(db: Database, scope: FeedScope, cursor?: string) {
    this.#db = db;
    this.#scope = scope;
    this.#cursor = cursor;
  }

  /** The same reader at another cursor. */
  at(cursor: string): FeedReader {
    const other = new FeedReader(this.#db, this.#scope, cursor);
    for (const [key, sequence] of this.shown) other.shown.set(key, sequence);
    return other;
  }

  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** Reads one page. */
  async read({ limit = 200, stretch, waitSeconds = 0 }: ReaderOptions = {}): Promise<Feed> {
    const feed = await readFeed(this.#db, createFeedWatch(this.#db), {
      context: { minimumIntervalSeconds: 60 },
      scope: this.#scope,
      cursor: this.#cursor === undefined ? undefined : decodeFeedCursor(this.#cursor),
      ...{ limit, stretch, waitSeconds },
      signal: new AbortController().signal,
    });
    this.#cursor = encodeFeedCursor(feed.next);
    for (const { monitor } of feed.items) this.shown.set(monitor.monitorKey, monitor.live.lastSequence);
    return feed;
  }

  /** Reads until nothing is left, and returns the pages. A listing that ends empty says nothing of what came meanwhile. */
  async drain(options?: ReaderOptions): Promise<Feed[]> {
    const pages: Feed[] = [];
    for (;;) {
      const isListing = this.#cursor === undefined || decodeFeedCursor(this.#cursor).listing !== undefined;
      const feed = await this.read(options);
      pages.push(feed);
      if (feed.items.length === 0 && !feed.next.listing && !isListing) return pages;
    }
  }
}
