// Routes of deliveries: of all, of one incident, one with its attempts, and sending one again.
import { getDelivery, listDeliveries, redeliver } from '../../service/deliveries/deliveries.ts';
import { requireIncident } from '../../service/incidents/incidents.ts';
import type { Handlers } from '../operation.ts';
import { presentPage, readPage } from '../paging/keyset-list.ts';

const LIST = 'deliveries';

type DeliveryOperation = 'listDeliveries' | 'listIncidentDeliveries' | 'getDelivery' | 'redeliver';

export const deliveryHandlers: Handlers<DeliveryOperation> = {
  listDeliveries: async ({ input: { query }, caller, context }) => {
    const { state, endpointId, incidentId } = query;
    const page = readPage(LIST, query);
    const filter = { state, endpointId, incidentId };
    return presentPage(LIST, query, await listDeliveries(context.pool, caller.projectId, filter, page));
  },

  listIncidentDeliveries: async ({ input: { params, query }, caller, context }) => {
    const page = readPage(LIST, query);
    const { incidentId } = params;
    await requireIncident(context.pool, caller.projectId, incidentId);
    return presentPage(
      LIST,
      query,
      await listDeliveries(context.pool, caller.projectId, { incidentId }, page),
    );
  },

  getDelivery: async ({ input, caller, context }) => ({
    status: 200,
    body: await getDelivery(context.pool, caller.projectId, input.params.deliveryId),
  }),

  redeliver: ({ input, caller, write }) =>
    write(
      (tx, nowMs) => redeliver(tx, { caller, deliveryId: input.params.deliveryId }, nowMs),
      (delivery) => ({ status: 202, body: delivery }),
    ),
};
