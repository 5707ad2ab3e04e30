// Events as Stripe makes, signs and sends them. Where the objects that Stripe publishes for tests can be had
// (stripe-fixtures.ts), those of events have all of their fields.
import { randomUUID } from 'node:crypto';
import { Stripe } from 'stripe';
import { readStripeFixtures } from './stripe-fixtures.ts';

export const WEBHOOK_SECRET = 'whsec_test_0123456789abcdef';
const { webhooks } = Stripe;

export interface StripeEvent {
  id: string;
  type: string;
  /** Seconds since 1970. */
  created: number;
  data: { object: object };
  [field: string]: unknown;
}

export const nowSeconds = () => Math.floor(Date.now() / 1_000);
/** In seconds since 1970. */
export const daysAgo = (days: number) => nowSeconds() - Math.round(days * 86_400);
export const newStripeId = (prefix: string) => `${prefix}_${randomUUID().replaceAll('-', '')}`;

const PUBLISHED = await readStripeFixtures();

export function makeEvent(type: string, object: object, created = nowSeconds()): StripeEvent {
  const envelope = { object: 'event', api_version: '2025-03-31.basil', livemode: true, pending_webhooks: 1 };
  // `charge.dispute.closed` is about a dispute.
  const kind = type.split('.').at(-2) ?? '';
  const published = { ...PUBLISHED[kind], ...object };
  return { ...envelope, id: newStripeId('evt'), type, created, data: { object: published } };
}

export interface SubscriptionOptions {
  id: string;
  customer: string;
  organizationId: string;
  status: string;
  plan?: string;
  [field: string]: unknown;
}

/** A subscription with one item, as it is in events. */
export function makeSubscription({
  id,
  customer,
  organizationId,
  plan,
  ...more
}: SubscriptionOptions): object {
  const price = {
    ...PUBLISHED.price,
    id: 'price_1',
    object: 'price',
    lookup_key: plan ?? 'smart',
    unit_amount: 4900,
    currency: 'eur',
  };
  const item = {
    ...PUBLISHED.subscription_item,
    id: 'si_1',
    object: 'subscription_item',
    price,
    quantity: 1,
    current_period_end: nowSeconds() + 86_400,
  };
  return {
    object: 'subscription',
    id,
    customer,
    cancel_at: null,
    cancel_at_period_end: false,
    trial_end: null,
    metadata: { organizationId },
    items: { object: 'list', data: [item], has_more: false },
    ...more,
  };
}

/** The header that Stripe sends with a body. `timestamp`: seconds, default now. */
export function signatureOf(payload: string, secret = WEBHOOK_SECRET, timestamp = nowSeconds()): string {
  return webhooks.generateTestHeaderString({ payload, secret, timestamp });
}

export interface SentEvent {
  status: number;
  outcome: string | undefined;
  code: string | undefined;
}

/** Sends an event, signed. `headers` replace those that Stripe sends. */
export async function sendEvent(
  url: string,
  event: object | string,
  headers: Record<string, string> = {},
): Promise<SentEvent> {
  const body = typeof event === 'string' ? event : JSON.stringify(event, null, 2);
  const answer = await fetch(`${url}/billing/stripe`, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'stripe-signature': signatureOf(body),
      ...headers,
    },
  });
  const { outcome, code } = (await answer.json()) as { outcome?: string; code?: string };
  return { status: answer.status, outcome, code };
}
