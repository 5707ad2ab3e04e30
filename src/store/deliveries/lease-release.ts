// Gives the leases of claimed deliveries back before their end.
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis, wholeMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import type { ClaimedDelivery } from './delivery-queue.ts';

export type Lease = Pick<ClaimedDelivery, 'projectId' | 'deliveryId' | 'leaseUntilMs' | 'shard'>;

const release = (isSameEnd: string) => `update deliveries d set lease_owner = null, lease_until = null
      from unnest($1::uuid[], $2::text[], $3::bigint[]) as k (project_id, delivery_id, lease_until_ms)
      where d.project_id = k.project_id and d.delivery_id = k.delivery_id and d.lease_owner = $4
        and ${isSameEnd}`;

const RELEASE = release(`${wholeMillis('d.lease_until')} = k.lease_until_ms`);
// An update on Citus converts no moment of a column to a number. There a lease ends at a whole millisecond.
const RELEASE_IN_SHARD = release(
  `d.lease_until = ${fromMillis('k.lease_until_ms')} and d.project_id = any($1::uuid[])`,
);

/**
 * Releases those of the leases that `owner` still holds, so that others need not wait for their end. A newer lease of the
 * same owner stays: this may come late, or twice.
 */
export async function releaseLeases(db: Queryable, owner: string, leases: readonly Lease[]): Promise<void> {
  if (leases.length === 0) return;
  if (!isDistributed()) {
    await db.query({ name: 'release-leases', text: RELEASE, values: valuesOf(leases, owner) });
    return;
  }
  for (const part of Map.groupBy(leases, ({ shard }) => shard).values()) {
    await db.query({
      name: 'release-leases',
      text: RELEASE_IN_SHARD,
      values: valuesOf(part, owner),
    });
  }
}

function valuesOf(leases: readonly Lease[], owner: string): unknown[] {
  return [
    leases.map((one) => one.projectId),
    leases.map((one) => one.deliveryId),
    leases.map((one) => one.leaseUntilMs),
    owner,
  ];
}
