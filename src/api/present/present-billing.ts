// Billing as the API shows it (docs/contract/organization.md): a grace is shown in payment grace alone, the end of a trial
// in a trial alone, and without a subscription nothing of one.
import type { Billing as BillingBody } from '../../contract/resources/billing.ts';
import type { FindPlan } from '../../domain/plan.ts';
import { optionalTime } from '../../domain/timestamp.ts';
import type { Billing } from '../../service/billing/read-billing.ts';

export function presentBilling(
  { organizationId, standing, subscription, hasCustomer, dispute }: Billing,
  findPlan: FindPlan,
): BillingBody {
  const { id, name, version } = findPlan(standing.plan);
  const { serviceState, graceEndsMs, reconciledMs } = standing;
  return {
    organizationId,
    plan: { id, name, version },
    serviceState,
    subscription:
      subscription === undefined
        ? { status: 'none' }
        : {
            status: subscription.status,
            cancelAtPeriodEnd: subscription.cancelAtPeriodEnd,
            currentPeriodEnd: optionalTime(subscription.currentPeriodEndMs),
            trialEndsAt: optionalTime(subscription.trialEndsMs),
          },
    dispute,
    portalAvailable: hasCustomer,
    graceEndsAt: serviceState === 'payment_grace' ? optionalTime(graceEndsMs) : undefined,
    reconciledAt: optionalTime(reconciledMs),
  };
}
