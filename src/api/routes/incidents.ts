// Incidents, of one monitor and of all: reads and the three actions. Their deliveries are in deliveries.ts.
import { optionalMs } from '../../domain/timestamp.ts';
import { withMonitors } from '../../service/calls/homes.ts';
import { readMerged } from '../../service/calls/merged-pages.ts';
import {
  acknowledgeIncident,
  noteIncident,
  requireIncident,
  resolveIncident,
} from '../../service/incidents/incidents.ts';
import { findMonitorRef } from '../../service/monitors/monitor-access.ts';
import { type ListedIncident, listIncidents, listTimeline } from '../../store/incidents/incidents.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import { presentIncident, presentTimelineEntry } from '../present/present-incident.ts';
import { monitorNameOf } from './monitors.ts';

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
  listIncidents: async ({ input: { query }, caller, homes }) => {
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
    const page = readPage(LIST, query, 'id');
    const asked = withMonitors(homes, jurisdiction);
    const rows = await readMerged(asked, page.limit, (db) => listIncidents(db, filter, page));
    return { body: presentPage(LIST, query, rows, presentIncident) };
  },

  listMonitorIncidents: async (call) => {
    const { query } = call.input;
    const page = readPage(LIST, query, 'id');
    const { projectId, monitorId } = monitorNameOf(call);
    const { monitorKey } = await findMonitorRef(call.db, monitorNameOf(call));
    const filter = { projectId, monitorKey, monitorId, state: query.state };
    const rows = await listIncidents(call.db, filter, page);
    return { body: presentPage(LIST, query, rows, presentIncident) };
  },

  getIncident: async ({ input: { params }, caller, db }) =>
    answer(await requireIncident(db, caller.projectId, params.incidentId)),

  getIncidentTimeline: async ({ input: { params, query }, caller, db }) => {
    const of = { projectId: caller.projectId, incidentId: params.incidentId };
    const page = readPage(TIMELINE, query, 'uuid');
    await requireIncident(db, of.projectId, of.incidentId);
    const rows = await listTimeline(db, of, page);
    return { body: presentPage(TIMELINE, query, rows, presentTimelineEntry) };
  },

  acknowledgeIncident: ({ input, caller, context, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => acknowledgeIncident(tx, context, action, nowMs), answer);
  },

  resolveIncident: ({ input, caller, context, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => resolveIncident(tx, context, action, nowMs), answer);
  },

  noteIncident: ({ input, caller, write }) => {
    const action = { caller, incidentId: input.params.incidentId, note: input.body.note };
    return write((tx, nowMs) => noteIncident(tx, action, nowMs), answer);
  },
};

function answer(row: ListedIncident) {
  return { body: presentIncident(row) };
}
