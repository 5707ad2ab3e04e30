// Follows the status feed of all projects by long polls, for as long as the process lives. The cursor is in memory
// alone: without one the feed begins with everything. It tells what came; it decides nothing.
import { setTimeout as delay } from 'node:timers/promises';
import { classify, isProblem } from '../../client/api-problem.ts';
import type { RestClient } from '../../client/rest-client.ts';
import type { StatusFeedItem } from '../../contract/resources/status-feed.ts';
import { backoffMs } from '../../kube/backoff.ts';
import type { KubeLog } from '../../kube/kube-log.ts';
import type { OperatorMetrics } from '../operator-metrics.ts';

export interface StatusFeedOptions {
  api: RestClient;
  /** Called for each item, with the time at which it came, ms of the process's clock. Must not throw. */
  onItem: (item: StatusFeedItem, atMs: number) => void;
  /** The feed answers again after it did not; `wasForbidden`: since the operator's rights were missing. */
  onRecovered: (wasForbidden: boolean) => void;
  metrics: OperatorMetrics;
  log: KubeLog;
}

const PAGE = 200;
const WAIT_SECONDS = 25;
const POLL_TIMEOUT_MS = (WAIT_SECONDS + 10) * 1000;
const BACKOFF = { baseMs: 250, maxMs: 5000 };

export class StatusFeedFollower {
  readonly #options: StatusFeedOptions;
  readonly #synced = Promise.withResolvers<void>();
  #run: { abort: AbortController; ended: Promise<void> } | undefined;
  #cursor: string | undefined;
  #hasSynced: boolean = false;
  #failures = 0;
  #wasForbidden: boolean = false;

  constructor(options: StatusFeedOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#run !== undefined) return;
    const abort = new AbortController();
    this.#run = { abort, ended: this.#loop(abort.signal) };
  }

  /** Nothing is told after it resolves. */
  async stop(): Promise<void> {
    this.#run?.abort.abort();
    await this.#run?.ended;
  }

  /** Resolves when everything was told once. */
  whenSynced(): Promise<void> {
    return this.#synced.promise;
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
    const { api, onItem, metrics } = this.#options;
    // The first read is a listing: it waits for nothing.
    const waitSeconds = this.#hasSynced ? WAIT_SECONDS : 0;
    const query = { limit: PAGE, waitSeconds, cursor: this.#cursor };
    const options = { signal, timeoutMs: POLL_TIMEOUT_MS, isLongPoll: true };
    const { body } = await api.call('getStatusFeed', { query }, options);
    if (signal.aborted) return;
    const atMs = performance.now();
    for (const item of body.items) onItem(item, atMs);
    metrics.feedItems.inc(body.items.length);
    this.#cursor = body.nextCursor;
    this.#recover();
    if (body.items.length === PAGE || this.#hasSynced) return;
    this.#hasSynced = true;
    this.#synced.resolve();
  }

  #recover(): void {
    this.#options.metrics.feedUp.set(1);
    if (this.#failures === 0) return;
    this.#failures = 0;
    const wasForbidden = this.#wasForbidden;
    this.#wasForbidden = false;
    this.#options.log.info({}, 'The status feed answers again.');
    this.#options.onRecovered(wasForbidden);
  }

  async #pauseAfter(error: unknown, signal: AbortSignal): Promise<void> {
    const { metrics, log } = this.#options;
    this.#failures += 1;
    metrics.feedFailures.inc();
    metrics.feedUp.set(0);
    // A cursor that this API does not read: begin again with everything.
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

/** One reading of everything, beside the following; `atMs`: when the item's page was asked for. Throws ApiProblem. */
export async function listStatusFeed(
  api: RestClient,
  onItem: (item: StatusFeedItem, atMs: number) => void,
  signal: AbortSignal,
): Promise<void> {
  let cursor: string | undefined;
  for (;;) {
    const query = { limit: PAGE, waitSeconds: 0, cursor };
    // When it was asked for: what the follower heard since then is newer than this page, however late the page comes.
    const atMs = performance.now();
    const { body } = await api.call('getStatusFeed', { query }, { signal });
    for (const item of body.items) onItem(item, atMs);
    cursor = body.nextCursor;
    if (body.items.length < PAGE) return;
  }
}
