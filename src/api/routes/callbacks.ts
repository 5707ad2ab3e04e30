// Routes of callback endpoints: from parsed input to a use case, from its result to the answer.

import { formatEtag } from '../../contract/fields/headers.ts';
import type { callbackOperations } from '../../contract/operations/callback-operations.ts';
import {
  checkCallbackPatch,
  rotateCallbackSecret,
  updateCallback,
} from '../../service/callbacks/callback-changes.ts';
import {
  type CallbackRecord,
  checkNewCallback,
  createCallback,
  type IssuedCallback,
  listCallbacks,
  removeCallback,
  requireCallback,
  setDefaultCallback,
  toCallbackRecord,
} from '../../service/callbacks/callbacks.ts';
import type { Answer } from '../../service/calls/write.ts';
import { finishTest, sendTest } from '../../service/deliveries/test-delivery.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';

const LIST = 'callbacks';

export const callbackHandlers: Handlers<keyof typeof callbackOperations> = {
  listCallbacks: async ({ input, caller, context }) => {
    const rows = await listCallbacks(context, caller.projectId, readPage(LIST, input.query));
    return presentPage(LIST, input.query, rows);
  },

  createCallback: async ({ input, caller, context, write }) => {
    await checkNewCallback(context, input.body);
    return await write(
      (tx, nowMs, atTheEnd) => createCallback(tx, context, { caller, input: input.body, atTheEnd }, nowMs),
      (issued) => presentIssued(201, issued),
    );
  },

  getCallback: async ({ input, caller, context }) => {
    const ref = { projectId: caller.projectId, endpointId: input.params.endpointId };
    return presentRecord(toCallbackRecord(context.secrets, await requireCallback(context.pool, ref)));
  },

  updateCallback: async ({ input, caller, context, write, ifMatch = 0 }) => {
    const change = { caller, endpointId: input.params.endpointId, generation: ifMatch };
    await checkCallbackPatch(context, change, input.body);
    return await write(
      (tx, nowMs) => updateCallback(tx, context, { ...change, patch: input.body }, nowMs),
      presentRecord,
    );
  },

  deleteCallback: ({ input, caller, write, ifMatch = 0 }) =>
    write(
      (tx, nowMs) =>
        removeCallback(tx, { caller, endpointId: input.params.endpointId, generation: ifMatch }, nowMs),
      () => ({ status: 204 }),
    ),

  rotateSigningSecret: ({ input, caller, context, write, ifMatch = 0 }) => {
    const { overlapSeconds } = input.body;
    const change = { caller, endpointId: input.params.endpointId, generation: ifMatch, overlapSeconds };
    return write(
      (tx, nowMs) => rotateCallbackSecret(tx, context, change, nowMs),
      (issued) => presentIssued(200, issued),
    );
  },

  testCallback: async ({ input, caller, context, write }) => {
    const { endpointId } = input.params;
    const sent = await sendTest(context, { caller, endpointId, idempotencyKey: input.idempotencyKey });
    return await write(
      (tx, nowMs) => finishTest(tx, sent, nowMs),
      (record) => ({ status: 200, body: record }),
    );
  },

  setDefaultCallback: ({ input, caller, write }) =>
    write(
      (tx) => setDefaultCallback(tx, caller, input.body.endpointId),
      (result) => ({ status: 200, body: result }),
    ),
};

function presentRecord(record: CallbackRecord): Answer {
  return { status: 200, headers: etagOf(record), body: record };
}

/** The secret is in the first answer alone. */
function presentIssued(status: number, { endpoint, signingSecret }: IssuedCallback): Answer {
  return {
    status,
    headers: etagOf(endpoint),
    body: { endpoint, replayed: false, signingSecret },
    replayBody: { endpoint, replayed: true },
  };
}

function etagOf({ generation }: CallbackRecord): Record<string, string> {
  return { etag: formatEtag('callback-endpoint', generation) };
}
