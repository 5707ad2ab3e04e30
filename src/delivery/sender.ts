// What every sender of deliveries does, whatever the kind and the format of the endpoint: one attempt of one delivery.
// senders.ts says which sender an endpoint has.

export interface AttemptRequest {
  /** Where to: the URL of a webhook, the topic of a relay kind. */
  url: string;
  /** The message's id: the same on every attempt and on a redelivery. */
  webhookId: string;
  /** The event in the standard format, as stored: the same on every attempt. */
  body: string;
  /** Secrets that are valid now, newest first (one, or two in a rotation's overlap). Relay kinds have none. */
  secrets: readonly string[];
}

/** What a delivery shows as `error` of an attempt (docs/contract/callbacks.md). A status such as 500 is no error class. */
export type AttemptError =
  | 'timeout'
  | 'connection_refused'
  | 'connection_reset'
  | 'unreachable'
  | 'dns'
  | 'tls'
  | 'destination_rejected'
  | 'redirect'
  | 'protocol';

/** docs/contract/callbacks.md. Exactly one of `statusCode` and `error` is present; a redirect has both. */
export interface AttemptResult {
  /** The receiver took the message: for a webhook, a status from 200 to 299. */
  delivered: boolean;
  /** The receiver answered 410: the caller disables the endpoint. */
  gone: boolean;
  statusCode?: number;
  error?: AttemptError;
  /** To the status line, or to the failure. Whole milliseconds. */
  latencyMs: number;
  /** The first 1,024 bytes of a webhook's answer as text. */
  body?: string;
  /**
   * The relay, which all organizations share, takes no more messages now. That says nothing of the delivery: the caller
   * waits, and counts no attempt (`postponementOf`).
   */
  refusedForNow?: boolean;
  /** The receiver's `Retry-After`, 0 to one hour; only where the attempt failed. */
  retryAfterMs?: number;
}

export interface Sender {
  /** One attempt, over within 10 s. Rejects only for internal faults, such as a text that is no signing secret. */
  send(request: AttemptRequest): Promise<AttemptResult>;
  /** Drops all connections. Attempts under way fail. */
  close(): Promise<void>;
}
