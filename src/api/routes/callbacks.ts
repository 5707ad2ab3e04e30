// Callback endpoints: from parsed input to a use case, from its result to the answer.
import type { callbackOperations } from '../../contract/operations/callback-operations.ts';
import {
  checkCallbackPatch,
  rotateCallbackSecret,
  updateCallback,
} from '../../service/callbacks/callback-changes.ts';
import {
  checkNewCallback,
  createCallback,
  type IssuedCallback,
  removeCallback,
  requireCallback,
  setDefaultCallback,
} from '../../service/callbacks/callbacks.ts';
import { finishTest, sendTest } from '../../service/deliveries/test-delivery.ts';
import { type EndpointRow, listEndpoints } from '../../store/callbacks/callback-endpoints.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import { presentCallback, presentSigningSecret, type Viewer } from '../present/present-callback.ts';

const LIST = 'callbacks';

export const callbackHandlers: Handlers<keyof typeof callbackOperations> = {
  listCallbacks: async ({ input: { query }, caller, context, db }) => {
    const rows = await listEndpoints(db, caller.projectId, readPage(LIST, query));
    return { body: presentPage(LIST, query, rows, (row) => presentCallback(row, { context, caller })) };
  },

  createCallback: async ({ input: { body }, caller, context, write }) => {
    await checkNewCallback(context, body);
    return await write(
      (tx, nowMs, atTheEnd) => createCallback(tx, context, { caller, input: body, atTheEnd }, nowMs),
      (issued) => answerIssued(issued, { context, caller }),
    );
  },

  getCallback: async ({ input, caller, context, db }) => {
    const ref = { projectId: caller.projectId, endpointId: input.params.endpointId };
    return answer(await requireCallback(db, ref), { context, caller });
  },

  updateCallback: async ({ input, caller, context, db, write }) => {
    const change = { caller, endpointId: input.params.endpointId, generation: input.ifMatch };
    await checkCallbackPatch(db, context, change, input.body);
    return await write(
      (tx, nowMs) => updateCallback(tx, context, { ...change, patch: input.body }, nowMs),
      (endpoint) => answer(endpoint, { context, caller }),
    );
  },

  deleteCallback: ({ input, caller, write }) => {
    const removal = { caller, endpointId: input.params.endpointId, generation: input.ifMatch };
    return write(
      (tx, nowMs) => removeCallback(tx, removal, nowMs),
      () => ({}),
    );
  },

  rotateSigningSecret: ({ input: { params, body, ifMatch }, caller, context, write }) => {
    const { overlapSeconds } = body;
    const change = { caller, endpointId: params.endpointId, generation: ifMatch, overlapSeconds };
    return write(
      (tx, nowMs) => rotateCallbackSecret(tx, context, change, nowMs),
      (issued) => answerIssued(issued, { context, caller }),
    );
  },

  testCallback: async ({ input, caller, context, db, write }) => {
    const { endpointId } = input.params;
    const sent = await sendTest(db, context, { caller, endpointId, idempotencyKey: input.idempotencyKey });
    return await write(
      (tx, nowMs) => finishTest(tx, sent, nowMs),
      (body) => ({ body }),
    );
  },

  setDefaultCallback: ({ input: { body }, caller, write }) =>
    write(
      (tx) => setDefaultCallback(tx, caller, body.endpointId),
      () => ({ body }),
    ),
};

function answer(endpoint: EndpointRow, viewer: Viewer) {
  return { version: endpoint.generation, body: presentCallback(endpoint, viewer) };
}

/** Only the first answer has the secret. */
function answerIssued(issued: IssuedCallback, viewer: Viewer) {
  const endpoint = presentCallback(issued.endpoint, viewer);
  return {
    version: issued.endpoint.generation,
    body: { endpoint, replayed: false, signingSecret: presentSigningSecret(issued.secret) },
    replayBody: { endpoint, replayed: true },
  };
}
