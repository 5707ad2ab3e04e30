// Whether this process may use a database at all: while its gate is closed, no statement of the pools that have the gate
// reaches it (pool.ts). directory/place-checks.ts opens it.

/** A statement that was not sent: to callers the database is away. */
export class GateClosed extends Error {
  /** SQLSTATE: the establishment of a connection was rejected. */
  readonly code = '08004';
}

export class Gate {
  #fault: string | undefined;

  /** Closed. `fault`: a sentence that says why. */
  constructor(fault: string) {
    this.#fault = fault;
  }

  /** Why it is closed; undefined: it is open. */
  get fault(): string | undefined {
    return this.#fault;
  }

  open(): void {
    this.#fault = undefined;
  }

  close(fault: string): void {
    this.#fault = fault;
  }

  /** What a statement gets that is not sent; undefined: it may be sent. */
  refusal(): GateClosed | undefined {
    return this.#fault === undefined ? undefined : new GateClosed(this.#fault);
  }
}
