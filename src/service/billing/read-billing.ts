// Billing as an organization sees it (docs/contract/organization.md).
import { type BillingSource, DISPUTES, type Dispute, type Subscription } from '../../domain/billing.ts';
import { notFound } from '../../domain/problem.ts';
import { findDecisive } from '../../domain/standing.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { inSnapshot, readNow } from '../../store/postgres/transaction.ts';
import { listDisputeOutcomes, listSubscriptions } from '../../store/tenancy/billing.ts';
import { findStanding, type KnownStanding } from '../../store/tenancy/organization-standing.ts';

export interface Billing {
  organizationId: string;
  standing: KnownStanding;
  /** The one that decides; undefined: there is none. */
  subscription?: Subscription;
  /** The provider knows who pays for it. One whose only subscription pays for another organization has no customer. */
  hasCustomer: boolean;
  dispute: Dispute;
}

/**
 * State and subscription as they were at one moment. Where plans and states come from the values of the installation there
 * is no subscription, whatever a provider said before.
 */
export async function readBilling(
  db: Database,
  source: BillingSource,
  organizationId: string,
): Promise<Billing> {
  return await inSnapshot(db, async (tx) => {
    const standing = await findStanding(tx, organizationId);
    if (!standing) throw notFound();
    if (source === 'static')
      return {
        organizationId,
        standing: { ...standing, reconciledMs: undefined },
        hasCustomer: false,
        dispute: 'none',
      };
    const subscriptions = await listSubscriptions(tx, organizationId);
    const outcomes: Dispute[] = await listDisputeOutcomes(tx, organizationId);
    return {
      organizationId,
      standing,
      subscription: findDecisive(subscriptions, await readNow(tx))?.subscription,
      hasCustomer: subscriptions.some(({ customerId }) => customerId !== undefined),
      dispute: DISPUTES.find((dispute) => outcomes.includes(dispute)) ?? 'none',
    };
  });
}
