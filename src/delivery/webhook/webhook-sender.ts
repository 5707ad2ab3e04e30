// Sends the attempts of webhook endpoints in the standard format: finds out where the URL leads now, signs, sends, reads
// the answer. It never throws for what a receiver does, keeps no state of deliveries and decides no retry.
import { parseRetryAfter } from '../retry-schedule.ts';
import type { AttemptError, AttemptRequest, AttemptResult, Sender } from '../sender.ts';
import { classifyAttemptError } from './attempt-error.ts';
import { ConnectionPools } from './connection-pools.ts';
import {
  type Destination,
  type DestinationDeps,
  type Location,
  locateDestination,
  parseDestination,
} from './destination.ts';
import { type Exchange, type ExchangeRequest, exchange } from './exchange.ts';
import { signatureHeaders } from './signature.ts';

export interface WebhookSenderOptions extends DestinationDeps {
  /** For one attempt with everything, DNS included; default 10 s (docs/contract/callbacks.md). */
  timeoutMs?: number;
  maxPools?: number;
  /** PEM certificates to trust instead of the runtime's; for receivers in tests. */
  ca?: string;
  /** Milliseconds since 1970; for the timestamp in the signature and for dates in `Retry-After`. */
  now?: () => number;
}

const USER_AGENT = 'Beatkeeper-Webhooks/1';

/** Keeps connections open for a moment after each attempt, for the next one. */
export class WebhookSender implements Sender {
  readonly #options: WebhookSenderOptions;
  readonly #timeoutMs: number;
  readonly #now: () => number;
  readonly #pools: ConnectionPools;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#now = options.now ?? Date.now;
    this.#pools = new ConnectionPools({
      maxPools: options.maxPools ?? 512,
      connectTimeoutMs: this.#timeoutMs,
      ca: options.ca,
    });
  }

  async send(request: AttemptRequest): Promise<AttemptResult> {
    const startedAtMs = performance.now();
    const destination = parseDestination(request.url);
    if ('code' in destination) return failure('destination_rejected', startedAtMs);
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), this.#timeoutMs);
    try {
      const location = await this.#locate(destination, controller.signal);
      if (location.state !== 'reachable') return failure(LOCATION_ERRORS[location.state], startedAtMs);
      const message = this.#buildRequest(request, destination);
      const answer = await this.#exchange({ destination, location, message, deadline: controller.signal });
      return this.#judge(answer, startedAtMs);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Attempts under way end as `protocol` or `connection_reset`. */
  async close(): Promise<void> {
    await this.#pools.close();
  }

  /** DNS is asked on every attempt: an address that was public at creation may not be so now. */
  #locate(destination: Destination, deadline: AbortSignal): Promise<Location | { state: 'timeout' }> {
    return new Promise((resolve, reject) => {
      deadline.addEventListener('abort', () => resolve({ state: 'timeout' }), { once: true });
      locateDestination(destination, this.#options).then(resolve, reject);
    });
  }

  #buildRequest(request: AttemptRequest, { url }: Destination): ExchangeRequest {
    const signature = signatureHeaders({
      webhookId: request.webhookId,
      timestampSeconds: this.#now() / 1000,
      body: request.body,
      secrets: request.secrets,
    });
    return {
      path: url.pathname + url.search,
      headers: { 'content-type': 'application/json', 'user-agent': USER_AGENT, ...signature },
      body: request.body,
    };
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
  deadline: AbortSignal;
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

function failure(error: AttemptError, startedAtMs: number): AttemptResult {
  return { delivered: false, gone: false, error, latencyMs: Math.round(performance.now() - startedAtMs) };
}
