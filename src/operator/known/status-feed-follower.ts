// Follows the status feed of all projects by long polls. The cursor is kept in memory only: without one, the feed begins
// with the status of every monitor. The follower notifies its listeners and decides nothing.
import { setTimeout as delay } from 'node:timers/promises';
import { classify, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import type { StatusFeedItem } from '../../contract/resources/status-feed.ts';
import { backoffMs } from '../../kube/backoff.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { OperatorMetrics } from '../operator-metrics.ts';
import type { PublishBase } from './publish-base.ts';
import type { SignIn } from './sign-in.ts';

export interface StatusFeedOptions {
  api: RestClient;
  signIn: SignIn;
  publishBase: PublishBase;
  /** The feed answers again after failures; `wasForbidden`: the operator's rights were missing. */
  onRecovered: (wasForbidden: boolean) => void;
  metrics: OperatorMetrics;
  log: KubeLog;
}

/** Must not throw. Times are ms of the process's clock. */
export interface FeedListener {
  /** The feed brought an item. */
  itemChanged(item: StatusFeedItem, atMs: number): void;
  /** A full listing contains the item; `atMs`: when its page was requested. */
  itemListed(item: StatusFeedItem, atMs: number): void;
  /** A full listing that began at `sinceMs` has ended; `listed` holds `<projectId>/<monitorId>`. */
  listingEnded(listed: ReadonlySet<string>, sinceMs: number): void;
}

const PAGE = 200;
const WAIT_SECONDS = 25;
/** While another beginning of publish addresses waits for a second answer. */
const DOUBT_WAIT_SECONDS = 5;
const POLL_TIMEOUT_MS = (WAIT_SECONDS + 10) * 1000;
const BACKOFF = { baseMs: 250, maxMs: 5000 };

export class StatusFeedFollower {
  readonly #options: StatusFeedOptions;
  readonly #listeners: FeedListener[] = [];
  readonly #synced = Promise.withResolvers<void>();
  #run: { abort: AbortController; ended: Promise<void> } | undefined;
  #cursor: string | undefined;
  #hasSynced: boolean = false;
  #failures = 0;
  #wasForbidden: boolean = false;

  constructor(options: StatusFeedOptions) {
    this.#options = options;
  }

  subscribe(listener: FeedListener): void {
    this.#listeners.push(listener);
  }

  start(): void {
    if (this.#run !== undefined) return;
    const abort = new AbortController();
    this.#run = { abort, ended: this.#loop(abort.signal) };
  }

  /** No listener is called after it resolves. */
  async stop(): Promise<void> {
    this.#run?.abort.abort();
    await this.#run?.ended;
  }

  /** Resolves when every item was read once. */
  whenSynced(): Promise<void> {
    return this.#synced.promise;
  }

  /** Lists every item once, beside the long poll: the feed does not report deleted monitors. Throws ApiProblem. */
  async readAll(signal: AbortSignal): Promise<void> {
    const sinceMs = performance.now();
    const listed = new Set<string>();
    const onItem = (item: StatusFeedItem, atMs: number) => {
      listed.add(`${item.projectId}/${item.monitorId}`);
      for (const listener of this.#listeners) listener.itemListed(item, atMs);
    };
    const isWhole = await listStatusFeed(this.#options.api, onItem, signal);
    // A monitor that is not listed may be in a database that is away.
    if (!isWhole) return;
    for (const listener of this.#listeners) listener.listingEnded(listed, sinceMs);
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#poll(signal);
      } catch (error) {
        if (signal.aborted) return;
        await this.#pauseAfter(error, signal);
      }
    }
  }

  async #poll(signal: AbortSignal): Promise<void> {
    const { api, metrics, publishBase } = this.#options;
    // The first call is a listing. After a failure the answer shows at once that the API is back.
    const isWaiting = this.#hasSynced && this.#failures === 0;
    const longestSeconds = publishBase.isInDoubt ? DOUBT_WAIT_SECONDS : WAIT_SECONDS;
    const waitSeconds = isWaiting ? longestSeconds : 0;
    const query = { limit: PAGE, waitSeconds, cursor: this.#cursor };
    const options = { signal, timeoutMs: POLL_TIMEOUT_MS, isLongPoll: true };
    const { body } = await api.call('getStatusFeed', { query }, options);
    if (signal.aborted) return;
    const atMs = performance.now();
    for (const item of body.items) for (const listener of this.#listeners) listener.itemChanged(item, atMs);
    publishBase.note(body.publishBaseUrl);
    metrics.feedItems.inc(body.items.length);
    this.#cursor = body.nextCursor;
    this.#recover();
    if (body.hasMore || this.#hasSynced) return;
    this.#hasSynced = true;
    this.#synced.resolve();
  }

  #recover(): void {
    this.#options.metrics.feedUp.set(1);
    this.#options.signIn.accept();
    if (this.#failures === 0) return;
    this.#failures = 0;
    const wasForbidden = this.#wasForbidden;
    this.#wasForbidden = false;
    this.#options.log.info({}, 'The status feed answers again.');
    this.#options.onRecovered(wasForbidden);
  }

  async #pauseAfter(error: unknown, signal: AbortSignal): Promise<void> {
    const { metrics, log, signIn } = this.#options;
    this.#failures += 1;
    signIn.fail(error);
    metrics.feedFailures.inc();
    metrics.feedUp.set(0);
    // The API does not understand the cursor: start again without one.
    if (isProblem(error, 'permanent') && error.status === 400) this.#cursor = undefined;
    if (isProblem(error) && (classify(error) === 'unauthorized' || error.status === 403))
      this.#wasForbidden = true;
    const leastMs = isProblem(error) ? error.retryAfterMs : 0;
    const pauseMs = Math.max(backoffMs(this.#failures, BACKOFF), leastMs);
    const isLoud = this.#failures === 3 || this.#failures % 60 === 0;
    log[isLoud ? 'warn' : 'debug'](
      { err: error, failures: this.#failures },
      'The status feed does not answer.',
    );
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

/**
 * Lists every item; `atMs`: when the item's page was requested. False: the database of a jurisdiction is away, and its monitors
 * are missing. Throws ApiProblem.
 */
export async function listStatusFeed(
  api: RestClient,
  onItem: (item: StatusFeedItem, atMs: number) => void,
  signal: AbortSignal,
): Promise<boolean> {
  let isWhole = true;
  let cursor: string | undefined;
  for (;;) {
    const query = { limit: PAGE, waitSeconds: 0, cursor };
    // The time of the request: whatever the long poll brought since then is newer than this page, however late it comes.
    const atMs = performance.now();
    const { body } = await api.call('getStatusFeed', { query }, { signal });
    for (const item of body.items) onItem(item, atMs);
    cursor = body.nextCursor;
    isWhole &&= body.away === undefined;
    if (!body.hasMore) return isWhole;
  }
}
