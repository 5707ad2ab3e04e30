// What went wrong with a call, in the words of the problem body.
import type { Problem } from '../../contract/resources/problem.ts';

export class Fault extends Error {
  /** 0: no answer came. */
  readonly status: number;
  readonly problem: Partial<Problem>;
  /** Not before it does another call help. */
  readonly retryAfterMs: number;

  constructor(status: number, problem: Partial<Problem>, retryAfterMs = 0) {
    super(problem.detail ?? problem.title ?? `The API answered ${status}.`);
    this.name = 'Fault';
    this.status = status;
    this.problem = problem;
    this.retryAfterMs = retryAfterMs;
  }

  /** The session is over, or there was none. */
  get isSignedOut(): boolean {
    return this.status === 401;
  }

  /** The API may answer the next time. */
  get isAway(): boolean {
    return this.status === 0 || this.status >= 500;
  }

  messageOf(field: string): string | undefined {
    return this.problem.fieldErrors?.find(({ path }) => path === field)?.message;
  }
}

export function faultOf(response: Response, text: string): Fault {
  const retryAfterMs = 1_000 * Number(response.headers.get('retry-after') ?? 0) || 0;
  try {
    return new Fault(response.status, JSON.parse(text), retryAfterMs);
  } catch {
    return new Fault(response.status, { title: `The answer was ${response.status}, without words.` });
  }
}

export function noAnswer(isLate: boolean): Fault {
  return new Fault(0, {
    detail: isLate ? 'The API has not answered for 10 s.' : 'The API cannot be reached.',
  });
}
