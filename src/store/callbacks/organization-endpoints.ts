// The endpoints of an organization: their number, and the default.
// Lock order: the organization's row comes last, after endpoints, because all its projects share the row.

import type { Queryable } from '../postgres/pool.ts';
import type { EndpointRef } from './callback-endpoints.ts';

/** Counts endpoints up or down. Returns the new count and the plan that limits it. */
export async function changeEndpointCount(
  tx: Queryable,
  organizationId: string,
  change: 1 | -1,
): Promise<{ count: number; planId: string }> {
  const { rows } = await tx.query<{ callback_endpoints: number; plan: string }>(
    `update organizations set callback_endpoints = greatest(0, callback_endpoints + $2)
     where organization_id = $1 returning callback_endpoints, plan`,
    [organizationId, change],
  );
  const row = rows[0];
  if (!row) throw new Error(`There is no organization ${organizationId}.`);
  return { count: row.callback_endpoints, planId: row.plan };
}

/** Sets the organization's default endpoint; undefined clears it. */
export async function setDefaultEndpoint(
  tx: Queryable,
  organizationId: string,
  endpoint: EndpointRef | undefined,
): Promise<void> {
  await tx.query(
    'update organizations set default_project_id = $2, default_endpoint_id = $3 where organization_id = $1',
    [organizationId, endpoint?.projectId, endpoint?.endpointId],
  );
}
