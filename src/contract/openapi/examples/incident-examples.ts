// Examples of the operations on incidents and deliveries.
import type { incidentOperations } from '../../operations/incident-operations.ts';
import type { Examples } from './example.ts';
import { actor, delivery, ID, incident, MONITOR } from './records.ts';

const params = { incidentId: ID.incident };
const ACTED = '2026-11-22T10:04:00.000Z';
const note = { note: 'The disk is full. I am on it.' };
const acknowledged = { ...incident, acknowledgedAt: ACTED, acknowledgedBy: actor };

export const incidentExamples: Examples<keyof typeof incidentOperations> = {
  listIncidents: {
    query: { state: 'open', monitorId: MONITOR, since: '2026-01-01T00:00:00Z' },
    answer: { items: [incident] },
  },
  getIncident: { params, answer: incident },
  getIncidentTimeline: {
    params,
    answer: {
      items: [
        { at: incident.openedAt, type: 'opened', to: 'open' },
        { at: ACTED, type: 'acknowledged', actor, ...note },
      ],
    },
  },
  listIncidentDeliveries: { params, answer: { items: [delivery] } },
  acknowledgeIncident: { params, body: note, answer: acknowledged },
  resolveIncident: {
    params,
    body: { note: 'Solved by hand.' },
    answer: { ...acknowledged, state: 'resolved', resolvedAt: '2026-11-22T10:30:00.000Z' },
  },
  noteIncident: { params, body: note, answer: acknowledged },
  listDeliveries: { query: { incidentId: ID.incident }, answer: { items: [delivery] } },
  getDelivery: {
    params: { deliveryId: ID.delivery },
    answer: {
      ...delivery,
      attempts: [{ at: '2026-11-22T10:00:00.180Z', statusCode: 204, latencyMs: 36 }],
    },
  },
  redeliver: {
    params: { deliveryId: ID.delivery },
    body: {},
    answer: {
      deliveryId: ID.redelivery,
      endpointId: ID.endpoint,
      incidentId: ID.incident,
      monitorId: MONITOR,
      event: 'incident.opened',
      state: 'pending',
      sequence: 1,
      attemptCount: 0,
      createdAt: ACTED,
      nextAttemptAt: ACTED,
      redeliveryOf: ID.delivery,
    },
  },
};
