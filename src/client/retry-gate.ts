// What `Retry-After` asks for, shared by all calls of the client: while a gate is shut nobody calls.

/** The name of the gate of the whole service. */
export const WHOLE_SERVICE = '';

export class RetryGate {
  readonly #now: () => number;
  /** Until when each scope is shut. Projects come and go slowly; what is over is dropped. */
  readonly #shutUntilMs = new Map<string, number>();

  /** `now` is a clock that only goes forward, ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Shuts a scope for at least `seconds`: a project's id, or the whole service. */
  shut(scope: string, seconds: number): void {
    const untilMs = this.#now() + seconds * 1000;
    this.#shutUntilMs.set(scope, Math.max(untilMs, this.#shutUntilMs.get(scope) ?? 0));
  }

  /** Milliseconds until a call in this scope may go out; 0: now. */
  waitMs(scope: string): number {
    return Math.max(this.#left(WHOLE_SERVICE), this.#left(scope));
  }

  #left(scope: string): number {
    const untilMs = this.#shutUntilMs.get(scope);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.#now();
    if (leftMs > 0) return leftMs;
    this.#shutUntilMs.delete(scope);
    return 0;
  }
}
