// The calls that run now: bounds their number, and ends the calls that are held open when the service drains.
import type { OperationSpec } from '../../contract/operations/operation.ts';
import { ProblemError } from '../../domain/problem.ts';

export interface OpenCallLimits {
  /** Calls that do work. */
  working: number;
  /** Calls that wait for something (`waitSeconds`): they cost memory and nothing else. */
  held: number;
}

const DEFAULT_LIMITS: OpenCallLimits = { working: 2_000, held: 5_000 };

export class OpenCalls {
  readonly #limits: OpenCallLimits;
  readonly #working = new Set<AbortController>();
  readonly #held = new Set<AbortController>();
  #draining = false;

  constructor(limits: OpenCallLimits = DEFAULT_LIMITS) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#working.size + this.#held.size;
  }

  get isDraining(): boolean {
    return this.#draining;
  }

  /** Adds a call. Throws `temporarily_unavailable` when too many run. */
  begin(spec: OperationSpec): AbortController {
    const holds = spec.query !== undefined && 'waitSeconds' in spec.query.shape;
    const [calls, limit] = holds ? [this.#held, this.#limits.held] : [this.#working, this.#limits.working];
    if (calls.size >= limit) {
      throw new ProblemError('temporarily_unavailable', {
        detail: 'Too many calls run at the same time: wait for Retry-After, then try again.',
        retryAfterSeconds: 1,
      });
    }
    const call = new AbortController();
    calls.add(call);
    if (holds && this.#draining) call.abort();
    return call;
  }

  end(call: AbortController): void {
    if (!this.#working.delete(call)) this.#held.delete(call);
  }

  /** Ends the calls that are held open, now and from now on. Calls that do work may finish. */
  drain(): void {
    this.#draining = true;
    for (const call of this.#held) call.abort();
  }
}
