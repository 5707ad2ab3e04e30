// The operations of /v1 that the dashboard calls. The compiler holds each to the contract.
import type { OperationId, Operations } from '../../contract/operations/operations.ts';

type Route<Id extends OperationId> = `${Operations[Id]['method']} ${Operations[Id]['path']}`;

export const ROUTES = {
  listProjects: 'GET /v1/projects',
  listMonitors: 'GET /v1/monitors',
  listIncidents: 'GET /v1/incidents',
  getIncident: 'GET /v1/incidents/{incidentId}',
  acknowledgeIncident: 'POST /v1/incidents/{incidentId}/acknowledge',
} as const satisfies { [Id in OperationId]?: Route<Id> };

export type Called = keyof typeof ROUTES;
