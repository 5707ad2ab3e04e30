// Callback endpoints: from parsed input to a use case, from its result to the answer.
import { z } from 'zod';
import type { callbackOperations } from '../../contract/operations/callback-operations.ts';
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import { notFound } from '../../domain/problem.ts';
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
} from '../../service/callbacks/callbacks.ts';
import { setDefaultCallback } from '../../service/callbacks/default-endpoint.ts';
import { checkDestinations } from '../../service/callbacks/destination-checks.ts';
import { setEndpointOrigin } from '../../service/callbacks/endpoint-origin.ts';
import { connectRelay, requireRelay } from '../../service/callbacks/relay.ts';
import { ahead } from '../../service/calls/ahead.ts';
import type { Caller } from '../../service/calls/context.ts';
import { askPresent } from '../../service/calls/homes.ts';
import { finishTest, sendTest } from '../../service/deliveries/test-delivery.ts';
import {
  type EndpointRef,
  type EndpointRow,
  listEndpoints,
} from '../../store/callbacks/callback-endpoints.ts';
import { listEndpointChanges } from '../../store/callbacks/endpoint-changes.ts';
import type { AuditedChange } from '../../telemetry/audit.ts';
import { requireMayDeclare } from '../auth/admission.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import {
  presentCallback,
  presentCallbackChange,
  presentSigningSecret,
  type Viewer,
} from '../present/present-callback.ts';

const LIST = 'callbacks';
const CHANGES = 'callback-changes';
const changePlace = z.tuple([z.int().min(1).max(2_147_483_647)]);

export const callbackHandlers: Handlers<keyof typeof callbackOperations> = {
  listCallbacks: async ({ input: { query }, caller, context, db }) => {
    const rows = await listEndpoints(db, caller.projectId, readPage(LIST, query));
    return { body: presentPage(LIST, query, rows, (row) => presentCallback(row, { context, caller })) };
  },

  createCallback: async ({ input: { body }, principal, caller, context, write }) => {
    requireMayDeclare(principal, body);
    const requireChecked = await ahead(() => checkNewCallback(context, body));
    return await write(
      (tx, nowMs, atTheEnd) => {
        requireChecked();
        return createCallback(tx, context, { caller, input: body, atTheEnd }, nowMs);
      },
      (issued) => answerIssued('create', issued, { context, caller }),
    );
  },

  getCallback: async ({ input, caller, context, db }) => {
    const ref = { projectId: caller.projectId, endpointId: input.params.endpointId };
    return answer(await requireCallback(db, ref), { context, caller });
  },

  listCallbackChanges: async ({ input: { params, query }, caller, db }) => {
    const before = decodeCursor(CHANGES, changePlace, query.cursor)?.[0];
    const ref = { projectId: caller.projectId, endpointId: params.endpointId };
    const found = await listEndpointChanges(db, ref, { limit: query.limit + 1, before });
    // An endpoint has at least its creation.
    if (found.length === 0 && before === undefined) throw notFound();
    const { rows, nextCursor } = cutPage(found, query.limit, ({ number }) => encodeCursor(CHANGES, [number]));
    return { body: { items: rows.map(presentCallbackChange), nextCursor } };
  },

  updateCallback: async ({ input, caller, context, db, write }) => {
    const change = { caller, endpointId: input.params.endpointId, generation: input.ifMatch };
    const requireChecked = await ahead(() => checkCallbackPatch(db, context, change, input.body));
    return await write(
      (tx, nowMs) => {
        requireChecked();
        return updateCallback(tx, context, { ...change, patch: input.body }, nowMs);
      },
      (endpoint) => ({
        ...answer(endpoint, { context, caller }),
        audit: endpoint.generation === input.ifMatch ? undefined : audited('update', endpoint),
      }),
    );
  },

  deleteCallback: ({ input, caller, write }) => {
    const removal = { caller, endpointId: input.params.endpointId, generation: input.ifMatch };
    return write(
      (tx, nowMs) => removeCallback(tx, removal, nowMs),
      () => ({ audit: audited('remove', { ...caller, endpointId: removal.endpointId }) }),
    );
  },

  rotateSigningSecret: ({ input: { params, body, ifMatch }, caller, context, write }) => {
    const { overlapSeconds } = body;
    const change = { caller, endpointId: params.endpointId, generation: ifMatch, overlapSeconds };
    return write(
      (tx, nowMs) => rotateCallbackSecret(tx, context, change, nowMs),
      (issued) => answerIssued('rotate_secret', issued, { context, caller }),
    );
  },

  testCallback: async ({ input, caller, context, db, write }) => {
    const { endpointId } = input.params;
    const call = { caller, endpointId, idempotencyKey: input.idempotencyKey };
    const requireSent = await ahead(() => sendTest(db, context, call));
    return await write(
      (tx, nowMs) => finishTest(tx, requireSent(), nowMs),
      ({ record, isDisabled }) => ({
        body: record,
        audit: isDisabled
          ? { ...audited('disable', { ...caller, endpointId }), actor: SYSTEM_ACTOR }
          : undefined,
      }),
    );
  },

  setCallbackOrigin: ({ input: { params, body }, caller, context, write }) => {
    const change = { caller, endpointId: params.endpointId, origin: body.origin ?? undefined };
    return write(
      (tx, nowMs) => setEndpointOrigin(tx, change, nowMs),
      ({ endpoint, hasChanged }) => ({
        ...answer(endpoint, { context, caller }),
        audit: hasChanged ? audited('update', endpoint) : undefined,
      }),
    );
  },

  checkDestinations: async ({ input: { body }, caller, context, homes, signal }) => {
    const question = { projectId: caller.projectId, endpointIds: body.endpointIds, signal };
    const found = await askPresent(homes, (db) => checkDestinations(db, context, question));
    // A place has copies of the endpoints that are not inline.
    const items = new Map(found.flat().map((item) => [item.endpointId, item]));
    return { body: { items: [...items.values()] } };
  },

  connectRelay: async ({ input: { body }, caller, context, write }) => {
    const { notifierId } = body;
    return await write(
      (tx, nowMs) => {
        const { url } = requireRelay(context, notifierId, 'notifierId');
        return connectRelay(tx, context, { caller, notifierId, url }, nowMs);
      },
      ({ topicUrl, groupTopicUrl, ...connection }) => {
        const replayBody = { ...connection, replayed: false };
        return {
          // Only the first answer has the addresses: who knows one may read it.
          body: { ...replayBody, topicUrl, groupTopicUrl },
          replayBody,
          audit: { action: 'relay.connect', object: { kind: 'notifier', id: notifierId } },
        };
      },
    );
  },

  setDefaultCallback: ({ input: { body }, caller, write }) =>
    write(
      (tx) => setDefaultCallback(tx, caller, body),
      (hasChanged) => ({
        body: { endpointId: body.endpointId },
        audit: hasChanged ? auditedDefault(caller, body.endpointId) : undefined,
      }),
    ),
};

function answer(endpoint: EndpointRow, viewer: Viewer) {
  return { version: endpoint.generation, body: presentCallback(endpoint, viewer) };
}

/** Only the first answer has the secret. */
function answerIssued(action: 'create' | 'rotate_secret', issued: IssuedCallback, viewer: Viewer) {
  const endpoint = presentCallback(issued.endpoint, viewer);
  return {
    version: issued.endpoint.generation,
    body: {
      endpoint,
      replayed: false,
      signingSecret: issued.secret && presentSigningSecret(issued.secret),
    },
    replayBody: { endpoint, replayed: true },
    audit: audited(action, issued.endpoint),
  };
}

type EndpointAction = 'create' | 'update' | 'rotate_secret' | 'remove' | 'disable';

function audited(action: EndpointAction, { projectId, endpointId }: EndpointRef): AuditedChange {
  return { action: `endpoint.${action}`, object: { kind: 'endpoint', id: endpointId, projectId } };
}

function auditedDefault({ organizationId, projectId }: Caller, endpointId: string | null): AuditedChange {
  if (endpointId !== null)
    return { action: 'default_endpoint.set', object: { kind: 'endpoint', id: endpointId, projectId } };
  return { action: 'default_endpoint.clear', object: { kind: 'organization', id: organizationId } };
}
