// One POST to a URL: finds out where the URL leads now, connects to a checked address, sends, judges the answer by its
// status. It never throws for what a receiver does, knows nothing of what is sent, and decides no retry.
import { isIP } from 'node:net';
import { RecentlyUsed } from '../recently-used.ts';
import { parseRetryAfter } from '../retry-schedule.ts';
import type { AttemptError, AttemptResult } from '../sender.ts';
import { classifyAttemptError } from './attempt-error.ts';
import { ConnectionPools } from './connection-pools.ts';
import { Deadline } from './deadline.ts';
import {
  type Destination,
  type DestinationDeps,
  type Location,
  locateDestination,
  parseDestination,
} from './destination.ts';
import { type Exchange, type ExchangeRequest, exchange } from './exchange.ts';

export interface PinnedPostOptions extends DestinationDeps {
  /** For one attempt with everything, DNS included; default 10 s (docs/contract/callbacks.md). */
  timeoutMs?: number;
  maxPools?: number;
  /** PEM certificates to trust instead of the runtime's; for receivers in tests. */
  ca?: string;
  /** Milliseconds since 1970; for dates in `Retry-After`. */
  now?: () => number;
}

/** What is sent, made when the address is known. */
export type MakeContent = () => Omit<ExchangeRequest, 'path'>;

interface Known {
  destination: Destination;
  /** Where an address leads that needs no DNS: that is always the same. */
  location?: Location;
}

const MAX_KNOWN = 1_000;

/** Keeps connections open for a moment after each attempt, for the next one. */
export class PinnedPost {
  readonly #options: PinnedPostOptions;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  readonly #pools: ConnectionPools;
  /** By the text of the URL. */
  readonly #known = new RecentlyUsed<Known>();

  constructor(options: PinnedPostOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#now = options.now ?? Date.now;
    this.#pools = new ConnectionPools({
      maxPools: options.maxPools ?? 512,
      connectTimeoutMs: this.#timeoutMs,
      ca: options.ca,
    });
  }

  /** Rejects only where `makeContent` throws, or for an internal fault. */
  async send(url: string, makeContent: MakeContent): Promise<AttemptResult> {
    const startedAtMs = performance.now();
    const known = this.#read(url);
    if (!known) return failure('destination_rejected', startedAtMs);
    const { destination } = known;
    const deadline = new Deadline(this.#timeoutMs);
    try {
      const location = known.location ?? (await this.#locate(known, deadline));
      if (location.state !== 'reachable') return failure(LOCATION_ERRORS[location.state], startedAtMs);
      const message = { path: destination.url.pathname + destination.url.search, ...makeContent() };
      const answer = await this.#exchange({ destination, location, message, deadline });
      return this.#judge(answer, startedAtMs);
    } finally {
      deadline.clear();
    }
  }

  /** Attempts under way end as `protocol` or `connection_reset`. */
  async close(): Promise<void> {
    await this.#pools.close();
  }

  /** Undefined: no attempt can be made to such an address. */
  #read(url: string): Known | undefined {
    const before = this.#known.get(url);
    if (before) return this.#known.use(url, () => before);
    const destination = parseDestination(url);
    if ('code' in destination) return undefined;
    const known = this.#known.use(url, () => ({ destination }));
    this.#known.dropSurplus(MAX_KNOWN, () => false);
    return known;
  }

  /** DNS is asked on every attempt: an address that was public at creation may not be so now. */
  #locate(known: Known, deadline: Deadline): Promise<Location | { state: 'timeout' }> {
    return new Promise((resolve, reject) => {
      deadline.watch(() => resolve({ state: 'timeout' }));
      locateDestination(known.destination, this.#options).then((location) => {
        if (isIP(known.destination.hostname) !== 0) known.location = location;
        resolve(location);
      }, reject);
    });
  }

  async #exchange(attempt: PinnedAttempt): Promise<Exchange> {
    const { destination, message, deadline } = attempt;
    const { addresses } = attempt.location;
    const lease = this.#pools.lease(destination, addresses);
    try {
      const result = await exchange(lease.pool, message, deadline);
      if (!lease.mayReuse || !isReset(result)) return result;
    } finally {
      lease.release();
    }
    // The receiver may have closed an idle connection just as we used it, which says nothing about its health. The
    // attempt is made once more on a new connection; a receiver may see the message twice, with one webhook-id.
    const fresh = this.#pools.openOnce(destination, addresses);
    try {
      return await exchange(fresh, message, deadline);
    } finally {
      void fresh.destroy();
    }
  }

  #judge(answer: Exchange, startedAtMs: number): AttemptResult {
    if (answer.state === 'timeout') return failure('timeout', startedAtMs);
    if (answer.state === 'failed') return failure(classifyAttemptError(answer.error), startedAtMs);
    const { statusCode } = answer;
    const delivered = statusCode >= 200 && statusCode <= 299;
    const isRedirect = statusCode >= 300 && statusCode <= 399;
    return {
      delivered,
      gone: statusCode === 410,
      statusCode,
      ...(isRedirect ? { error: 'redirect' } : {}),
      latencyMs: Math.round(answer.answeredAtMs - startedAtMs),
      body: answer.body,
      ...(delivered ? {} : { retryAfterMs: parseRetryAfter(answer.retryAfter, this.#now()) }),
    };
  }
}

interface PinnedAttempt {
  destination: Destination;
  location: { addresses: string[] };
  message: ExchangeRequest;
  deadline: Deadline;
}

const LOCATION_ERRORS = {
  refused: 'destination_rejected',
  plain_http: 'destination_rejected',
  not_found: 'dns',
  no_dns: 'dns',
  timeout: 'timeout',
} as const satisfies Record<string, AttemptError>;

function isReset(result: Exchange): boolean {
  return result.state === 'failed' && classifyAttemptError(result.error) === 'connection_reset';
}

/** An attempt without an answer, which began at `startedAtMs` of `performance.now()`. */
export function failure(error: AttemptError, startedAtMs: number): AttemptResult {
  return { delivered: false, gone: false, error, latencyMs: Math.round(performance.now() - startedAtMs) };
}
