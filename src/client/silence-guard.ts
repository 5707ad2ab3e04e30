// What becomes of calls while the API gives no answer at all: one at a time finds out whether it does again, the
// others fail at once. Else every worker would wait for time limits, and what needs no API (an object that is forced
// to go) would wait behind them. A refusal is an answer: only silence counts.
import { ApiProblem } from './api-problem.ts';

/** Calls in a row without an answer after which the API counts as silent. */
const PATIENCE = 5;

export class SilenceGuard {
  #unanswered = 0;
  #isProbing: boolean = false;

  /** Runs a call. Throws what it throws, or ApiProblem `unreachable` while another one is finding out. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    const isProbe = this.#unanswered >= PATIENCE;
    if (isProbe && this.#isProbing) {
      const detail = 'The API gives no answer; one call at a time waits for it.';
      throw new ApiProblem({ status: 0, code: 'unreachable', detail });
    }
    if (isProbe) this.#isProbing = true;
    try {
      return await this.listen(call);
    } catch (error) {
      if (error instanceof ApiProblem && error.status === 0) this.#unanswered += 1;
      throw error;
    } finally {
      if (isProbe) this.#isProbing = false;
    }
  }

  /** Runs a call that is never held back and whose silence says nothing, as that of a long poll. */
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
