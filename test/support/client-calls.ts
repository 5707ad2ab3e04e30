// Every call of the contract as a generated client makes it: the example of each operation, on things of its own, by
// somebody who may make it. Tests drive clients in several languages with them.
import type { ApiFixture } from './api-fixture.ts';
import { newRequestFor, OPERATIONS, type Operation } from './filled-project.ts';

export interface ClientCall {
  operationId: string;
  tag: string;
  token: string;
  /** Of path, query and headers, by the names of the document. */
  parameters: Record<string, unknown>;
  body: unknown;
}

/** Generated clients ask for JSON, and read no lines. */
const CALLS: readonly Operation[] = OPERATIONS.filter(({ streams }) => streams === undefined);

/** What a client must report of a call. */
export interface ClientResult {
  operationId: string;
  status: number;
  hasBody: boolean;
}

/** `specs`: those that the client has. */
export async function prepareCalls(api: ApiFixture, specs = CALLS): Promise<ClientCall[]> {
  const calls: ClientCall[] = [];
  for (const spec of specs) {
    const { params, query, body, ifMatch, idempotencyKey } = await newRequestFor(api, spec);
    const stated = {
      ...params,
      ...query,
      ...(spec.project === 'none' ? {} : { 'Service-Project': api.projectId }),
      ...(ifMatch ? { 'If-Match': ifMatch } : {}),
      ...(idempotencyKey ? { 'Idempotency-Key': idempotencyKey } : {}),
    };
    calls.push({
      operationId: spec.operationId,
      tag: spec.tag,
      token: spec.preset === 'operator' ? api.tokens.operator : api.tokens.owner,
      parameters: stated,
      body,
    });
  }
  return calls;
}

/** The results of `prepareCalls` where the client reads every answer. */
export function expectedResults(specs = CALLS): ClientResult[] {
  return specs.map(({ operationId, success, response, streams }) => ({
    operationId,
    status: success,
    hasBody: response !== undefined || streams !== undefined,
  }));
}
