// Decides whether a call may go out now: RetryGate keeps what `Retry-After` asks for, SilenceGuard holds calls back while
// the API gives no answer.
import { ApiProblem, isSilence } from './api-problem.ts';

/** The scope of the whole service. */
export const WHOLE_SERVICE = '';

/** Shared by all calls of a client: nobody calls while a gate is shut. */
export class RetryGate {
  readonly #now: () => number;
  /** Until when each scope is shut. Scopes that are open again are dropped. */
  readonly #shutUntilMs = new Map<string, number>();

  /** `now` is a monotonic clock, ms. */
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
    return Math.max(this.#leftMs(WHOLE_SERVICE), this.#leftMs(scope));
  }

  #leftMs(scope: string): number {
    const untilMs = this.#shutUntilMs.get(scope);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.#now();
    if (leftMs > 0) return leftMs;
    this.#shutUntilMs.delete(scope);
    return 0;
  }
}

/** Calls in a row without an answer after which the API counts as silent. */
const SILENT_AFTER = 5;

/**
 * While the API is silent, one call at a time probes it and the others fail at once. Otherwise every worker would wait
 * for its time limit, and work that needs no API (an object that is forced to go) would wait behind them. A refusal is
 * an answer: only silence counts.
 */
export class SilenceGuard {
  #unanswered = 0;
  #isProbing: boolean = false;

  /** Runs a call. Throws what it throws, or ApiProblem `unreachable` while another call is the probe. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    const isProbe = this.#unanswered >= SILENT_AFTER;
    if (isProbe && this.#isProbing) {
      const detail = 'The API gives no answer. One call at a time is tried until it does.';
      throw new ApiProblem({ status: 0, code: 'unreachable', detail });
    }
    if (isProbe) this.#isProbing = true;
    try {
      return await this.listen(call);
    } catch (error) {
      if (isSilence(error)) this.#unanswered += 1;
      throw error;
    } finally {
      if (isProbe) this.#isProbing = false;
    }
  }

  /** Runs a call that is never held back and whose silence means nothing, such as a long poll. */
  async listen<T>(call: () => Promise<T>): Promise<T> {
    try {
      const answer = await call();
      this.#unanswered = 0;
      return answer;
    } catch (error) {
      if (error instanceof ApiProblem && error.status > 0) this.#unanswered = 0;
      throw error;
    }
  }
}
