// What a write needs done before its transaction, since no transaction may wait for it: a name is resolved, a receiver answers,
// another database is asked.
import { ProblemError } from '../../domain/problem.ts';

/**
 * Does the work now. Call what it returns inside the write: it returns the result, or throws the refusal. A refusal that comes
 * sooner would deny what another replica has done for a duplicate since this call looked for its key: `write` finds that
 * answer, and no refusal counts then. A refusal that may be retried is thrown at once, as is every other error.
 */
export async function ahead<Result>(work: () => Promise<Result>): Promise<() => Result> {
  try {
    const result = await work();
    return () => result;
  } catch (error) {
    if (!(error instanceof ProblemError) || error.retryable) throw error;
    return () => {
      throw error;
    };
  }
}
