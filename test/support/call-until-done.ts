// Calls as a client makes them that knows the rules: a refusal that may be retried is, with the same key.
import { setTimeout as pause } from 'node:timers/promises';
import type { OperationId } from '../../src/contract/operations/operations.ts';
import type { ApiAnswer, ApiClient, ApiRequest } from './api-client.ts';

const PAUSE_MS = 20;

/** One call by each client, all at once; again where the answer may be retried, until none is left. */
export async function callUntilDone(
  clients: readonly ApiClient[],
  id: OperationId,
  request: ApiRequest,
): Promise<ApiAnswer<unknown>[]> {
  const done: ApiAnswer<unknown>[] = [];
  for (let waiting = clients; waiting.length > 0; ) {
    const answers = await Promise.all(waiting.map((client) => client.call(id, request)));
    waiting = waiting.filter((_client, index) => answers[index]?.problem?.retryable);
    for (const answer of answers) {
      if (!answer.problem?.retryable) done.push(answer);
      else if (!/conflict|temporarily_unavailable|rate_limited/.test(answer.problem.code))
        throw new Error(`${id} may not be retried: ${JSON.stringify(answer.problem)}`);
    }
    if (waiting.length > 0) await pause(PAUSE_MS);
  }
  return done;
}
