// What keeps an object from being as its spec says and is nobody's failure: shown in its conditions, looked at again.

export type BlockedReason = 'Conflict' | 'SecretConflict' | 'SecretNotFound' | 'Refused';

export class Blocked extends Error {
  /** Reason of the conditions. */
  readonly reason: BlockedReason;
  /** When to look again; the object's own changes come at once. */
  readonly retryMs: number;

  constructor(reason: BlockedReason, message: string, retryMs = 15_000) {
    super(message);
    this.name = 'Blocked';
    this.reason = reason;
    this.retryMs = retryMs;
  }
}
