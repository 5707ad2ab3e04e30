// Decides how an organization stands, from all that the billing provider has said, and writes it down. An event does it
// (apply-event.ts), and a sweeper when a state ends by itself.
import { isServed } from '../../domain/plan.ts';
import { findDecisive, nextStanding } from '../../domain/standing.ts';
import type { Connection } from '../../store/postgres/pool.ts';
import { listSubscriptions } from '../../store/tenancy/billing.ts';
import { lockStanding, updateStanding } from '../../store/tenancy/organization-standing.ts';

/** What has changed, for the audit line. */
export interface StandingChange {
  organizationId: string;
  what: 'state' | 'plan';
  from: string;
  to: string;
}

export interface Settling {
  nowMs: number;
  /** It has just lost a dispute. */
  isLost: boolean;
  /** By an event of the billing provider. */
  isReconciled: boolean;
}

/** Locks the organization's row last. The caller holds `lockBilling`. A second run changes nothing. */
export async function settleOrganization(
  tx: Connection,
  organizationId: string,
  { nowMs, isLost, isReconciled }: Settling,
): Promise<StandingChange[]> {
  const subscriptions = await listSubscriptions(tx, organizationId);
  const before = await lockStanding(tx, organizationId);
  if (!before) return [];
  const after = nextStanding(before, findDecisive(subscriptions, nowMs), { nowMs, isLost });
  const [wasServed, isNowServed] = [isServed(before.serviceState), isServed(after.serviceState)];
  const moments = {
    reconciledMs: isReconciled ? nowMs : undefined,
    returnedMs: !wasServed && isNowServed ? nowMs : undefined,
    suspendedMs: wasServed && !isNowServed ? nowMs : undefined,
  };
  await updateStanding(tx, organizationId, { ...after, ...moments });
  const changes: StandingChange[] = [
    { organizationId, what: 'state', from: before.serviceState, to: after.serviceState },
    { organizationId, what: 'plan', from: before.plan, to: after.plan },
  ];
  return changes.filter(({ from, to }) => from !== to);
}
