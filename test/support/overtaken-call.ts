// A duplicate that another replica overtakes: it has looked for its key and found no answer, and all that it does after that
// comes later than what happens meanwhile.
import type { OperationId } from '../../src/contract/operations/operations.ts';
import type { ApiAnswer, ApiClient, ApiRequest } from './api-client.ts';
import { callUntilDone } from './call-until-done.ts';
import type { TcpProxy } from './tcp-proxy.ts';
import { waitFor } from './wait-for.ts';

/** The statement by which a call looks for its key. */
const LOOK = 'find-answer';

export interface OvertakenCall {
  client: ApiClient;
  /** Between the client's api and its database. */
  proxy: TcpProxy;
  id: OperationId;
  request: ApiRequest;
}

/** Starts the call, does `meanwhile` while it stands still after its look, and returns its answer. */
export async function overtake(
  { client, proxy, id, request }: OvertakenCall,
  meanwhile: () => Promise<unknown>,
): Promise<ApiAnswer<unknown>> {
  proxy.holdAnswerTo(LOOK);
  const call = callUntilDone([client], id, request);
  await waitFor(() => proxy.hasHeldAnswer, { what: `${id} has looked for its key` });
  await meanwhile();
  proxy.release();
  const [answer] = await call;
  if (!answer) throw new Error('There is no answer.');
  return answer;
}
