// Reads an event of Stripe: what it says, in words of ours, and nothing else of it. It verifies no signature:
// stripe-signature.ts does.
import { z } from 'zod';
import {
  type BillingEvent,
  type Charge,
  type DisputeFacts,
  type SaidSubscription,
  SUBSCRIPTION_STATUSES,
} from '../../domain/billing.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { PLAN_IDS } from '../../domain/problem.ts';

const id = z.string().regex(/^[A-Za-z0-9_-]{1,255}$/);
/** The last second of the year 9999. */
const seconds = z.int().min(0).max(253_402_300_799);
/** An object of Stripe, or its id where it is not expanded. */
const reference = z.union([id, z.object({ id }).transform((object) => object.id)]);
const metadata = z.object({ organizationId: z.unknown().optional() }).nullish();
/** Which organization it is about. What is no id of one names none. */
const organizationOf = (given: z.output<typeof metadata>) => {
  const value = given?.organizationId;
  return typeof value === 'string' && UUID_PATTERN.test(value) ? value.toLowerCase() : undefined;
};

const envelope = z.object({
  id,
  created: seconds,
  /** Of a connected account: whoever it belongs to chose its metadata. */
  account: z.string().nullish(),
  data: z.object({ object: z.unknown() }),
});

const subscription = z
  .object({
    id,
    customer: reference.nullish(),
    status: z.enum(SUBSCRIPTION_STATUSES).exclude(['none']),
    cancel_at_period_end: z.boolean().nullish(),
    cancel_at: seconds.nullish(),
    /** Versions of Stripe's API from 2025-03-31 on have it on the items. */
    current_period_end: seconds.nullish(),
    trial_end: seconds.nullish(),
    items: z
      .object({
        data: z.array(
          z.object({
            price: z.object({ lookup_key: z.string().nullish() }).nullish(),
            current_period_end: seconds.nullish(),
          }),
        ),
      })
      .nullish(),
  })
  // A trial states when it ends (docs/contract/organization.md).
  .refine(({ status, trial_end }) => status !== 'trialing' || typeof trial_end === 'number');

const charge = z.object({ id, customer: reference.nullish(), metadata });
const dispute = z.object({ id, charge: reference, status: z.string() });

const OURS = /^(customer\.subscription|charge|charge\.dispute)\.([a-z_]{1,64})$/;

/** Where an event is among those of one second. */
const STEPS: Readonly<Record<string, 0 | 2>> = { created: 0, deleted: 2, closed: 2 };

/**
 * Undefined for events of other kinds, and those about nothing of ours. Throws ZodError for one about something of ours
 * that cannot be read, such as a subscription with a status that this build does not know.
 */
export function readStripeEvent(json: unknown): BillingEvent | undefined {
  const { type } = z.object({ type: z.string() }).parse(json);
  const [, what, word = ''] = OURS.exec(type) ?? [];
  if (what === undefined || (what === 'charge' && word !== 'succeeded')) return undefined;
  const { id: eventId, created, account, data } = envelope.parse(json);
  if (account) return undefined;
  const event = { eventId, type, saidMs: created * 1_000, saidStep: STEPS[word] ?? 1 } as const;
  if (what === 'charge.dispute') return { ...event, kind: 'dispute', dispute: readDispute(data.object) };
  if (what === 'charge') {
    const facts = readCharge(data.object);
    return facts && { ...event, kind: 'charge', charge: facts };
  }
  const facts = readSubscription(data.object);
  return facts && { ...event, kind: 'subscription', subscription: facts };
}

function readDispute(object: unknown): DisputeFacts {
  const { id: disputeId, charge: chargeId, status } = dispute.parse(object);
  return { disputeId, chargeId, outcome: outcomeOf(status) };
}

/** Undefined for a charge of which nobody could ever tell whose it is. */
function readCharge(object: unknown): Charge | undefined {
  const { id: chargeId, customer, metadata: given } = charge.parse(object);
  const organizationId = organizationOf(given);
  if (!customer && !organizationId) return undefined;
  return { chargeId, customerId: customer ?? undefined, organizationId };
}

/** Undefined for one that names no organization and cannot be read: it is of another product. */
function readSubscription(object: unknown): SaidSubscription | undefined {
  const organizationId = organizationOf(z.object({ metadata }).parse(object).metadata);
  const read = subscription.safeParse(object);
  if (!read.success && organizationId === undefined) return undefined;
  const {
    id: subscriptionId,
    customer,
    status,
    trial_end,
    ...rest
  } = read.data ?? subscription.parse(object);
  const items = rest.items?.data ?? [];
  const periodEnd =
    rest.current_period_end ?? items.find((item) => item.current_period_end)?.current_period_end;
  const { cancel_at: cancelAt } = rest;
  return {
    subscriptionId,
    organizationId,
    customerId: customer ?? undefined,
    status,
    // Of several the largest.
    plan: PLAN_IDS.findLast((plan) => items.some(({ price }) => price?.lookup_key === plan)),
    // With flexible billing Stripe says so by a moment alone.
    cancelAtPeriodEnd: rest.cancel_at_period_end === true || (cancelAt ? cancelAt === periodEnd : false),
    currentPeriodEndMs: toMs(periodEnd),
    trialEndsMs: status === 'trialing' ? toMs(trial_end) : undefined,
  };
}

function toMs(moment: number | null | undefined): number | undefined {
  return typeof moment === 'number' ? moment * 1_000 : undefined;
}

/** An inquiry (`warning_…`) that ends without a dispute has cost nothing, nor has one that was prevented. */
function outcomeOf(status: string): DisputeFacts['outcome'] {
  if (status === 'lost') return 'lost';
  return ['won', 'warning_closed', 'prevented'].includes(status) ? 'won' : 'open';
}
