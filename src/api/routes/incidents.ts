// Routes of incidents, of one monitor and of all: reads and the three actions. Their deliveries are in deliveries.ts.

import { optionalMs } from '../../service/calls/time.ts';
import type { Answer } from '../../service/calls/write.ts';
import {
  acknowledgeIncident,
  getIncident,
  type IncidentRecord,
  listIncidents,
  listTimeline,
  noteIncident,
  resolveIncident,
} from '../../service/incidents/incidents.ts';
import { findMonitorRef } from '../../service/monitors/find-monitor.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';

const LIST = 'incidents';
const TIMELINE = 'timeline';

type IncidentOperation =
  | 'listIncidents'
  | 'listMonitorIncidents'
  | 'getIncident'
  | 'getIncidentTimeline'
  | 'acknowledgeIncident'
  | 'resolveIncident'
  | 'noteIncident';

export const incidentHandlers: Handlers<IncidentOperation> = {
  listIncidents: async ({ input: { query }, caller, context }) => {
    const { state, monitorId, severity, jurisdiction } = query;
    const filter = {
      projectId: caller.projectId,
      state,
      monitorId,
      severity,
      jurisdiction,
      sinceMs: optionalMs(query.since),
      untilMs: optionalMs(query.until),
    };
    const rows = await listIncidents(context.pool, filter, readPage(LIST, query));
    return presentPage(LIST, query, rows);
  },

  listMonitorIncidents: async ({ input: { params, query }, caller, context }) => {
    const { projectId } = caller;
    const page = readPage(LIST, query);
    const { monitorId } = params;
    const { monitorKey } = await findMonitorRef(context.pool, {
      projectId,
      monitorId,
      jurisdiction: query.jurisdiction,
    });
    const filter = { projectId, monitorKey, monitorId, state: query.state };
    const rows = await listIncidents(context.pool, filter, page);
    return presentPage(LIST, query, rows);
  },

  getIncident: async ({ input, caller, context }) =>
    presentIncident(await getIncident(context.pool, caller.projectId, input.params.incidentId)),

  getIncidentTimeline: async ({ input: { params, query }, caller, context }) => {
    const of = { projectId: caller.projectId, incidentId: params.incidentId };
    const rows = await listTimeline(context.pool, of, readPage(TIMELINE, query, 'uuid'));
    return presentPage(TIMELINE, query, rows);
  },

  acknowledgeIncident: ({ input, caller, context, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => acknowledgeIncident(tx, context, action, nowMs), presentIncident);
  },

  resolveIncident: ({ input, caller, context, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => resolveIncident(tx, context, action, nowMs), presentIncident);
  },

  noteIncident: ({ input, caller, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => noteIncident(tx, action, nowMs), presentIncident);
  },
};

function presentIncident(incident: IncidentRecord): Answer {
  return { status: 200, body: incident };
}
