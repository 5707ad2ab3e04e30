// Deliveries: of all incidents, of one, one with its attempts, and sending one again.
import { withMonitors } from '../../service/calls/homes.ts';
import { readMerged } from '../../service/calls/merged-pages.ts';
import { redeliver, requireDelivery } from '../../service/deliveries/deliveries.ts';
import { requireIncident } from '../../service/incidents/incidents.ts';
import { listAttempts, listDeliveries } from '../../store/deliveries/deliveries.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';
import { presentAttempt, presentDelivery } from '../present/present-delivery.ts';

const LIST = 'deliveries';

type DeliveryOperation = 'listDeliveries' | 'listIncidentDeliveries' | 'getDelivery' | 'redeliver';

export const deliveryHandlers: Handlers<DeliveryOperation> = {
  listDeliveries: async ({ input: { query }, caller, homes }) => {
    const { state, endpointId, incidentId, jurisdiction } = query;
    const page = readPage(LIST, query, 'id');
    const filter = { state, endpointId, incidentId, jurisdiction };
    // Without a jurisdiction also the default database that has no monitors: it has tests of endpoints.
    const asked = jurisdiction ? withMonitors(homes, jurisdiction) : homes;
    const rows = await readMerged(asked, page.limit, (db) =>
      listDeliveries(db, caller.projectId, filter, page),
    );
    return { body: presentPage(LIST, query, rows, presentDelivery) };
  },

  listIncidentDeliveries: async ({ input: { params, query }, caller, db }) => {
    const page = readPage(LIST, query, 'id');
    const { incidentId } = params;
    await requireIncident(db, caller.projectId, incidentId);
    const rows = await listDeliveries(db, caller.projectId, { incidentId }, page);
    return { body: presentPage(LIST, query, rows, presentDelivery) };
  },

  getDelivery: async ({ input: { params }, caller, db }) => {
    const row = await requireDelivery(db, caller.projectId, params.deliveryId);
    const attempts = await listAttempts(db, caller.projectId, params.deliveryId);
    return { body: { ...presentDelivery(row), attempts: attempts.map(presentAttempt) } };
  },

  redeliver: ({ input: { params }, caller, write }) =>
    write(
      (tx, nowMs) => redeliver(tx, { caller, deliveryId: params.deliveryId }, nowMs),
      (row) => ({ body: presentDelivery(row) }),
    ),
};
