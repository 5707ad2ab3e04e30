// Billing: what the events of the billing provider say, which of two is the newer one, and what a subscription is after
// them (docs/contract/organization.md). standing.ts says what it means for its organization. Pure: times are ms.
import type { PlanId } from './problem.ts';
import { DAY_MS } from './retention.ts';

export const BILLING_SOURCES = ['static', 'stripe'] as const;
export type BillingSource = (typeof BILLING_SOURCES)[number];

/** `none`: the organization has no subscription. The other ones are the provider's words. */
export const SUBSCRIPTION_STATUSES = [
  'none',
  'trialing',
  'active',
  'past_due',
  'unpaid',
  'canceled',
  'incomplete',
  'incomplete_expired',
  'paused',
] as const;
export type SubscriptionStatus = (typeof SUBSCRIPTION_STATUSES)[number];

/** The gravest first: of several disputes that one is shown. */
export const DISPUTES = ['lost', 'open', 'won', 'none'] as const;
export type Dispute = (typeof DISPUTES)[number];

/** From the first unpaid invoice. */
export const GRACE_MS = 14 * DAY_MS;

/** When something was said, as the provider's events say it: `created`, in seconds, and an order within one second. */
export interface Said {
  saidMs: number;
  /** 0 begins a thing, 2 ends it, 1 is in between. */
  saidStep: 0 | 1 | 2;
}

/** What an event says of a subscription. */
export interface SubscriptionFacts {
  subscriptionId: string;
  organizationId: string;
  customerId?: string;
  status: Exclude<SubscriptionStatus, 'none'>;
  /** Undefined: its price names none of our plans. */
  plan?: PlanId;
  cancelAtPeriodEnd: boolean;
  currentPeriodEndMs?: number;
  trialEndsMs?: number;
}

/** What a subscription was from a moment on. */
export interface Turn extends Said {
  status: SubscriptionFacts['status'];
}

export interface Subscription extends SubscriptionFacts, Said {
  /** Since when it is unpaid or, when canceled, since when the service has ended. It follows from `turns`. */
  lapsedMs?: number;
  /** The last payment and all that was said after it, the oldest first: an event that comes late has its place. */
  turns: readonly Turn[];
}

/** `organizationId`: as its metadata say it. */
export type SaidSubscription = Omit<SubscriptionFacts, 'organizationId'> & { organizationId?: string };

export interface Charge {
  chargeId: string;
  customerId?: string;
  /** Where the charge itself names it. */
  organizationId?: string;
}

export interface DisputeFacts {
  disputeId: string;
  chargeId: string;
  outcome: Exclude<Dispute, 'none'>;
}

/** An event of the provider about something that may be ours. */
export type BillingEvent<Facts = SaidSubscription> = Said & { eventId: string; type: string } & (
    | { kind: 'subscription'; subscription: Facts }
    | { kind: 'charge'; charge: Charge }
    | { kind: 'dispute'; dispute: DisputeFacts }
  );

/** Events come in any order. Of two of one second that are in the same step, the one that comes later counts. */
export function isOlder(said: Said, known: Said): boolean {
  return said.saidMs === known.saidMs ? said.saidStep < known.saidStep : said.saidMs < known.saidMs;
}

/** A trial that ends without a means of payment is `paused`: nobody pays for it either. */
const isUnpaid = (status: SubscriptionStatus) => ['past_due', 'unpaid', 'paused'].includes(status);

/** One that never began names a plan that nobody has paid for. */
export const namesPaidPlan = ({ status, plan }: Pick<Subscription, 'status' | 'plan'>) =>
  plan !== undefined && status !== 'incomplete' && status !== 'incomplete_expired';

/** Bounds a row. Nobody is unpaid for so many events that Stripe would still send one of the oldest. */
const MAX_TURNS = 100;

/**
 * A subscription after an event. `known`: as it was before. The newest event says how it is; an older one may say since
 * when. Events give the same subscription in whatever order they come.
 */
export function afterEvent(
  known: Subscription | undefined,
  facts: SubscriptionFacts,
  { saidMs, saidStep }: Said,
): Subscription {
  const turns = sinceLastPaid([...(known?.turns ?? []), { saidMs, saidStep, status: facts.status }]);
  const newest = known && isOlder({ saidMs, saidStep }, known) ? known : { ...facts, saidMs, saidStep };
  return { ...newest, turns, lapsedMs: lapseOf(turns) };
}

function sinceLastPaid(all: readonly Turn[]): Turn[] {
  const turns = all.toSorted((a, b) => a.saidMs - b.saidMs || a.saidStep - b.saidStep);
  const paid = turns.findLastIndex(({ status }) => !isUnpaid(status) && status !== 'canceled');
  const since = turns.slice(Math.max(0, paid));
  return since.length <= MAX_TURNS ? since : [...since.slice(0, 2), ...since.slice(2 - MAX_TURNS)];
}

function lapseOf(turns: readonly Turn[]): number | undefined {
  let lapsedMs: number | undefined;
  let wasUnpaid = false;
  for (const { status, saidMs } of turns) {
    if (isUnpaid(status)) lapsedMs = wasUnpaid ? lapsedMs : saidMs;
    else if (status !== 'canceled') lapsedMs = undefined;
    // The end of a grace has ended the service before.
    else if (wasUnpaid) lapsedMs = Math.min(saidMs, (lapsedMs ?? saidMs) + GRACE_MS);
    else lapsedMs ??= saidMs;
    wasUnpaid = isUnpaid(status);
  }
  return lapsedMs;
}
