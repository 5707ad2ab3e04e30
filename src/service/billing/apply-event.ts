// Applies an event of the billing provider: once, in the order in which the provider made them, to the organization that
// it names (docs/contract/organization.md). What was said is kept; how organizations stand follows from all of it.
import {
  afterEvent,
  type BillingEvent,
  type Charge,
  type DisputeFacts,
  isOlder,
  type Said,
  type SubscriptionFacts,
} from '../../domain/billing.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { leftBehind } from '../../domain/standing.ts';
import type { Connection } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import {
  findDispute,
  findPayers,
  findSubscription,
  insertBillingEvent,
  insertCharge,
  lockBilling,
  putDispute,
  putSubscription,
  settleLostDisputes,
} from '../../store/tenancy/billing.ts';
import { findOrganizationIds } from '../../store/tenancy/organization-standing.ts';
import { type StandingChange, settleOrganization } from './settle-organization.ts';

/** `unconcerned`: it is about no organization that is here. `older`: something newer was said of the same thing. */
export type EventOutcome = 'applied' | 'repeated' | 'older' | 'unconcerned';

export interface AppliedEvent {
  outcome: EventOutcome;
  changes: StandingChange[];
}

/** In a transaction. It may run again with the same event: it changes nothing more then. */
export async function applyBillingEvent(tx: Connection, event: BillingEvent): Promise<AppliedEvent> {
  await lockBilling(tx);
  const ours = await findOurs(tx, event);
  if (!ours) return { outcome: 'unconcerned', changes: [] };
  if (!(await insertBillingEvent(tx, event.eventId))) return { outcome: 'repeated', changes: [] };
  const concerned = await keep(tx, ours);
  if (concerned === undefined) return { outcome: 'older', changes: [] };
  const lost = new Set(await settleLostDisputes(tx));
  const nowMs = await readNow(tx);
  const changes: StandingChange[] = [];
  // In one order, as everybody who locks several organizations.
  for (const organizationId of [...new Set([...concerned, ...lost])].sort()) {
    const settling = { nowMs, isLost: lost.has(organizationId), isReconciled: true };
    changes.push(...(await settleOrganization(tx, organizationId, settling)));
  }
  return { outcome: 'applied', changes };
}

type OurEvent = BillingEvent<SubscriptionFacts>;

/**
 * The event with the organization that it is about: the one that it names, else the one that its subscription was for. A
 * charge or a dispute may come before the subscription that says whose it is: it is kept.
 */
async function findOurs(tx: Connection, event: BillingEvent): Promise<OurEvent | undefined> {
  if (event.kind !== 'subscription') return event;
  const { organizationId: named, ...facts } = event.subscription;
  const organizationId =
    named !== undefined && (await exists(tx, named))
      ? named
      : (await findSubscription(tx, facts.subscriptionId))?.organizationId;
  return organizationId === undefined ? undefined : { ...event, subscription: { ...facts, organizationId } };
}

async function exists(tx: Connection, organizationId: string): Promise<boolean> {
  if (!UUID_PATTERN.test(organizationId)) return false;
  return (await findOrganizationIds(tx, [organizationId])).length > 0;
}

/** Keeps what was said. Returns the organizations that it concerns; undefined: it says nothing new. */
async function keep(tx: Connection, event: OurEvent): Promise<string[] | undefined> {
  switch (event.kind) {
    case 'subscription':
      return await keepSubscription(tx, event.subscription, event);
    case 'charge':
      return await keepCharge(tx, event.charge);
    case 'dispute':
      return await keepDispute(tx, event.dispute, event);
  }
}

async function keepSubscription(
  tx: Connection,
  facts: SubscriptionFacts,
  said: Said,
): Promise<string[] | undefined> {
  const known = await findSubscription(tx, facts.subscriptionId);
  const after = afterEvent(known, facts, said);
  await putSubscription(tx, after);
  if (!known) return [after.organizationId];
  // One that comes late says no more how it is, but perhaps since when.
  if (isOlder(said, known)) return after.lapsedMs === known.lapsedMs ? undefined : [known.organizationId];
  if (after.organizationId === known.organizationId) return [after.organizationId];
  const left = leftBehind(known, said);
  if (left) await putSubscription(tx, left);
  return [after.organizationId, known.organizationId];
}

async function keepCharge(tx: Connection, { organizationId, ...charge }: Charge): Promise<string[]> {
  const named =
    organizationId !== undefined && (await exists(tx, organizationId)) ? organizationId : undefined;
  await insertCharge(tx, { ...charge, organizationId: named });
  return await findPayers(tx, charge.chargeId);
}

async function keepDispute(tx: Connection, facts: DisputeFacts, said: Said): Promise<string[] | undefined> {
  const known = await findDispute(tx, facts.disputeId);
  if (known && isOlder(said, known)) return undefined;
  const { saidMs, saidStep } = said;
  // It suspends once, also where an appeal opens it again and is lost too.
  const isSettled = known?.isSettled ?? false;
  await putDispute(tx, { ...facts, saidMs, saidStep, isSettled });
  return await findPayers(tx, facts.chargeId);
}
