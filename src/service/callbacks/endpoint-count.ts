// The organization's count of callback endpoints, inline ones included: as many as are not removed, disabled ones and
// those of archived monitors too (docs/contract/organization.md). Each change runs in the transaction that makes or
// removes the endpoint, and last in it: the organization's row is shared by all of its projects.
import { planLimitReached } from '../../domain/plan.ts';
import { changeEndpointCount } from '../../store/callbacks/callback-endpoints.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';

/** Counts one more. Throws `plan_limit_reached`, with the `path` of the field that asks for it, where there is one. */
export async function countEndpoint(
  tx: Queryable,
  { findPlan }: Pick<ServiceContext, 'findPlan'>,
  organizationId: string,
  path?: string,
): Promise<void> {
  const { count, planId } = await changeEndpointCount(tx, organizationId, 1);
  const plan = findPlan(planId);
  const limit = plan.callbackEndpoints;
  if (count <= limit) return;
  const exceeded = { dimension: 'callback_endpoints', limit, current: count - 1, attempted: count } as const;
  throw planLimitReached(plan, exceeded, path);
}

/** Counts one out that was removed. */
export async function uncountEndpoint(tx: Queryable, organizationId: string): Promise<void> {
  await changeEndpointCount(tx, organizationId, -1);
}
