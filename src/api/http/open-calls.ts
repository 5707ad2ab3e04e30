// The calls that run now: a bound on them, and one place that ends what is held open when the service drains.
import type { OperationSpec } from '../../contract/operations/operation.ts';
import { ProblemError } from '../../domain/problem.ts';

export interface OpenCallLimits {
  /** Calls that work. */
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

  /** Counts a call in. Throws `temporarily_unavailable` when too many run. */
  begin(spec: OperationSpec): AbortController {
    const holds = spec.query !== undefined && 'waitSeconds' in spec.query.shape;
    const [calls, limit] = holds ? [this.#held, this.#limits.held] : [this.#working, this.#limits.working];
    if (calls.size >= limit) {
      throw new ProblemError('temporarily_unavailable', {
        detail: 'Too many calls run at this moment: try again.',
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

  /** Ends what is held open, now and from now on; calls that work are left to finish. */
  drain(): void {
    this.#draining = true;
    for (const call of this.#held) call.abort();
  }
}
