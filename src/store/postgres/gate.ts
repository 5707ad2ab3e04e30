// Whether this process may use a database at all: while its gate is closed, no statement of the pools that have the gate
// reaches it (pool.ts). directory/place-checks.ts opens it.

/** A statement that was not sent: to callers the database is away. */
export class GateClosed extends Error {
  /** SQLSTATE: the establishment of a connection was rejected. */
  readonly code = '08004';
}

export class Gate {
  #fault: string | undefined;
  readonly #passed = new Set<() => void>();

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
    for (const end of this.#passed) end();
  }

  /** `end` is called when the gate closes: what has passed before is of no use after it opens again. */
  pass(end: () => void): void {
    this.#passed.add(end);
  }

  /** `end` is called no more. */
  leave(end: () => void): void {
    this.#passed.delete(end);
  }

  /** What a statement gets that is not sent; undefined: it may be sent. */
  refusal(): GateClosed | undefined {
    return this.#fault === undefined ? undefined : new GateClosed(this.#fault);
  }
}
