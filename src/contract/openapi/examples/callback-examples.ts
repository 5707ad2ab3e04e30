// Examples of the operations on callback endpoints.
import type { callbackOperations } from '../../operations/callback-operations.ts';
import type { Examples } from './example.ts';
import { ALIAS, actor, ENDPOINT_URL, endpoint, ID, REQUEST_ID, rotation, signingSecret } from './records.ts';

const params = { endpointId: ID.endpoint };
const rotated = { version: 2, issuedAt: endpoint.createdAt, ...rotation };
const lastDelivery = { state: 'delivered', at: '2026-11-22T10:00:00.180Z', statusCode: 204 } as const;
/** As the operator states and sees it. */
const origin = {
  kind: 'Callback' as const,
  namespace: 'payments',
  name: 'on-call',
  uid: '0b8a4d7c-1f6e-4b0e-8c1b-5b7f0d2a9e63',
  ownedFields: ['alias'],
};

export const callbackExamples: Examples<keyof typeof callbackOperations> = {
  listCallbacks: { query: { limit: 50 }, answer: { items: [endpoint] } },
  createCallback: {
    body: { alias: ALIAS, url: ENDPOINT_URL },
    answer: { endpoint, replayed: false, signingSecret },
  },
  getCallback: {
    params,
    answer: {
      ...endpoint,
      lastDelivery,
    },
  },
  listCallbackChanges: {
    params,
    answer: {
      items: [
        {
          kind: 'configuration',
          action: 'update',
          actor,
          configurationVersion: 2,
          occurredAt: '2026-11-22T10:05:00.000Z',
          sourceRequestId: REQUEST_ID,
          url: { from: 'https://hooks.example.com', to: 'https://hooks.example.com' },
        },
        {
          kind: 'configuration',
          action: 'create',
          actor,
          configurationVersion: 1,
          occurredAt: endpoint.createdAt,
          sourceRequestId: REQUEST_ID,
          alias: { to: ALIAS },
          url: { to: 'https://hooks.example.com' },
        },
      ],
    },
  },
  updateCallback: {
    params,
    body: { url: `${ENDPOINT_URL}/v2` },
    answer: { ...endpoint, url: `${ENDPOINT_URL}/v2`, generation: 2 },
  },
  deleteCallback: { params },
  rotateSigningSecret: {
    params,
    body: { overlapSeconds: 300 },
    answer: {
      endpoint: {
        ...endpoint,
        generation: 2,
        secret: rotated,
      },
      replayed: false,
      signingSecret: { ...signingSecret, version: 2, ...rotation },
    },
  },
  testCallback: {
    params,
    body: {},
    answer: { delivered: true, statusCode: 204, latencyMs: 36, body: '', deliveryId: ID.delivery },
  },
  setCallbackOrigin: {
    params,
    body: { origin },
    answer: { ...endpoint, generation: 3, origin, secret: rotated, lastDelivery },
  },
  checkDestinations: {
    body: { endpointIds: [ID.endpoint] },
    answer: { items: [{ endpointId: ID.endpoint, verdict: 'accepted' }] },
  },
  connectRelay: {
    body: { notifierId: 'ntfy' },
    answer: {
      actorId: `sha256:${'5'.repeat(64)}`,
      notifierId: 'ntfy',
      contractVersion: 'ntfy-1',
      topicUrl: `https://push.example.com/bk_${'x'.repeat(43)}`,
      groupTopicUrl: `https://push.example.com/bk_${'y'.repeat(43)}`,
      replayed: false,
    },
  },
  setDefaultCallback: { body: { endpointId: ID.endpoint }, answer: { endpointId: ID.endpoint } },
};
