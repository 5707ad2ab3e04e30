// An api whose plans come from Stripe, and what a test says to it of subscriptions.
import { createLog } from '../../src/telemetry/log.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  makeEvent,
  makeSubscription,
  newStripeId,
  type SubscriptionOptions,
  sendEvent,
  WEBHOOK_SECRET,
} from '../support/stripe-events.ts';

export interface BillingFixture extends ApiFixture {
  /** The lines of the log so far. */
  lines: readonly string[];
}

export async function openBillingFixture(): Promise<BillingFixture> {
  const lines: string[] = [];
  const log = createLog({ role: 'api', level: 'info' }, { write: (line: string) => void lines.push(line) });
  const config = { billingSource: 'stripe', stripeWebhookSecret: WEBHOOK_SECRET } as const;
  return { ...(await openApiFixture({ log, config })), lines };
}

/** A new subscription of the organization and its customer, and what Stripe says of it. */
export function subscribeTo({ url }: ApiFixture, organizationId: string) {
  const id = newStripeId('sub');
  const customer = newStripeId('cus');
  const make = (status: string, more: Partial<SubscriptionOptions> = {}) =>
    makeSubscription({ id, customer, organizationId, status, ...more });
  const say = (status: string, created: number, more: Partial<SubscriptionOptions> = {}) => {
    const word = status === 'canceled' ? 'deleted' : 'updated';
    return sendEvent(url, makeEvent(`customer.subscription.${word}`, make(status, more), created));
  };
  return { id, customer, make, say };
}

/** Ends what a test has begun. */
export async function forgetBilling({ pool }: ApiFixture): Promise<void> {
  for (const table of ['subscriptions', 'charges', 'disputes', 'events'])
    await pool.query(`delete from billing_${table}`);
  await pool.query(
    "update organizations set service_state = 'active', plan = 'scale', state_due_at = null, billing_reconciled_at = null",
  );
}
