// Operations on incidents and deliveries (docs/contract/incidents.md).
import { z } from 'zod';
import { identifier, jurisdiction, severity } from '../fields/field.ts';
import { pageOf, pageQuery, rangeQuery, refuseReversedRange } from '../fields/paging.ts';
import { delivery, deliveryState, deliveryWithAttempts } from '../resources/delivery.ts';
import {
  incident,
  incidentActionBody,
  incidentNoteBody,
  incidentState,
  timelineEntry,
} from '../resources/incident.ts';
import { operation } from './operation.ts';

const params = z.strictObject({ incidentId: identifier });
const deliveryParams = z.strictObject({ deliveryId: identifier });
const base = { tag: 'Incidents', project: 'required' } as const;
const deliveryBase = { tag: 'Deliveries', project: 'required' } as const;

/** Common to the three actions on an incident. */
const action = {
  ...base,
  method: 'POST',
  preset: 'manage',
  params,
  idempotent: true,
  success: 200,
  response: incident,
} as const;

export const incidentOperations = {
  listIncidents: operation({
    ...base,
    operationId: 'listIncidents',
    method: 'GET',
    path: '/v1/incidents',
    summary: 'List incidents of all monitors',
    description: 'Newest first. `since` and `until` are about `openedAt`.',
    preset: 'read',
    query: z
      .strictObject({
        state: incidentState.optional(),
        monitorId: identifier.optional(),
        severity: severity.optional(),
        jurisdiction: jurisdiction.optional(),
        ...rangeQuery,
        ...pageQuery,
      })
      .superRefine(refuseReversedRange),
    success: 200,
    response: pageOf(incident),
  }),
  getIncident: operation({
    ...base,
    operationId: 'getIncident',
    method: 'GET',
    path: '/v1/incidents/{incidentId}',
    summary: 'Get an incident',
    preset: 'read',
    params,
    success: 200,
    response: incident,
  }),
  getIncidentTimeline: operation({
    ...base,
    operationId: 'getIncidentTimeline',
    method: 'GET',
    path: '/v1/incidents/{incidentId}/timeline',
    summary: 'Get the timeline of an incident',
    description: 'Oldest first.',
    preset: 'read',
    params,
    query: z.strictObject(pageQuery),
    success: 200,
    response: pageOf(timelineEntry),
  }),
  listIncidentDeliveries: operation({
    ...base,
    operationId: 'listIncidentDeliveries',
    method: 'GET',
    path: '/v1/incidents/{incidentId}/deliveries',
    summary: 'List the deliveries of an incident',
    preset: 'read',
    params,
    query: z.strictObject(pageQuery),
    success: 200,
    response: pageOf(delivery),
  }),
  acknowledgeIncident: operation({
    ...action,
    operationId: 'acknowledgeIncident',
    path: '/v1/incidents/{incidentId}/acknowledge',
    summary: 'Acknowledge an incident',
    body: incidentActionBody,
    bodyOptional: true,
  }),
  resolveIncident: operation({
    ...action,
    operationId: 'resolveIncident',
    path: '/v1/incidents/{incidentId}/resolve',
    summary: 'Resolve an incident',
    body: incidentActionBody,
    bodyOptional: true,
  }),
  noteIncident: operation({
    ...action,
    operationId: 'noteIncident',
    path: '/v1/incidents/{incidentId}/note',
    summary: 'Write a note on an incident',
    body: incidentNoteBody,
  }),
  listDeliveries: operation({
    ...deliveryBase,
    operationId: 'listDeliveries',
    method: 'GET',
    path: '/v1/deliveries',
    summary: 'List deliveries',
    preset: 'read',
    query: z.strictObject({
      state: deliveryState.optional(),
      endpointId: identifier.optional(),
      incidentId: identifier.optional(),
      jurisdiction: jurisdiction
        .optional()
        .describe('Only those of monitors of this jurisdiction: a test of an endpoint has no monitor.'),
      ...pageQuery,
    }),
    success: 200,
    response: pageOf(delivery),
  }),
  getDelivery: operation({
    ...deliveryBase,
    operationId: 'getDelivery',
    method: 'GET',
    path: '/v1/deliveries/{deliveryId}',
    summary: 'Get a delivery with every attempt',
    preset: 'read',
    params: deliveryParams,
    success: 200,
    response: deliveryWithAttempts,
  }),
  redeliver: operation({
    ...deliveryBase,
    operationId: 'redeliver',
    method: 'POST',
    path: '/v1/deliveries/{deliveryId}/redeliver',
    summary: 'Send a delivery again',
    description:
      'Answers the new delivery, with `redeliveryOf`. The `webhook-id` stays: it is the same message.',
    preset: 'manage',
    params: deliveryParams,
    body: z.strictObject({}),
    bodyOptional: true,
    idempotent: true,
    success: 202,
    response: delivery,
  }),
};
