// Which events of Stripe count: in which order, how often, and about whom (docs/contract/organization.md).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { daysAgo, makeEvent, nowSeconds, sendEvent, WEBHOOK_SECRET } from '../support/stripe-events.ts';
import { type BillingFixture, forgetBilling, openBillingFixture, subscribeTo } from './billing-fixture.ts';

let api: BillingFixture;
beforeAll(async () => {
  api = await openBillingFixture();
});
afterAll(() => api?.close());

const billing = async (client = api.read) => (await client.expectSuccess('getBilling')).body;
const subscribe = (organizationId = api.organizationId) => subscribeTo(api, organizationId);
const forget = () => forgetBilling(api);

describe('events', () => {
  it('an event that is older than what was said changes nothing, nor does one that comes again', async () => {
    const subscription = subscribe();
    const ended = makeEvent('customer.subscription.deleted', subscription.make('canceled'), daysAgo(3));
    expect(await sendEvent(api.url, ended)).toMatchObject({ status: 200, outcome: 'applied' });
    expect(await subscription.say('active', daysAgo(9))).toMatchObject({ status: 200, outcome: 'older' });
    expect((await billing()).serviceState).toBe('canceled');
    expect(await subscription.say('active', daysAgo(1))).toMatchObject({ status: 200, outcome: 'applied' });
    expect(await sendEvent(api.url, ended)).toMatchObject({ status: 200, outcome: 'repeated' });
    expect((await billing()).serviceState).toBe('active');
    await forget();
  });

  it('a payment that comes late begins the grace anew, as in its own order', async () => {
    const subscription = subscribe();
    await subscription.say('past_due', daysAgo(31));
    await subscription.say('past_due', daysAgo(1));
    expect((await billing()).serviceState).toBe('canceled');
    expect(await subscription.say('active', daysAgo(2))).toMatchObject({ status: 200, outcome: 'applied' });
    expect(await billing()).toMatchObject({
      serviceState: 'payment_grace',
      subscription: { status: 'past_due' },
    });
    await forget();
  });

  it.each([
    ['no organization', {}],
    ['one that is not here', { organizationId: crypto.randomUUID() }],
  ])('a subscription that is known goes on where it was when its metadata name %s', async (_, metadata) => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(3));
    expect(await subscription.say('past_due', daysAgo(2), { metadata })).toMatchObject({
      outcome: 'applied',
    });
    expect((await billing()).serviceState).toBe('payment_grace');
    await subscription.say('canceled', daysAgo(1), { metadata });
    expect((await billing()).serviceState).toBe('canceled');
    await forget();
  });

  it('an organization whose last subscription moves to another one is canceled from then on, and returns with it', async () => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(40));
    const moved = { metadata: { organizationId: api.other.organizationId } };
    await subscription.say('active', daysAgo(5), moved);
    // Who pays is the customer of the other one.
    expect(await billing()).toMatchObject({
      serviceState: 'canceled',
      subscription: { status: 'canceled' },
      portalAvailable: false,
    });
    expect(await billing(api.other.manage)).toMatchObject({ serviceState: 'active', portalAvailable: true });
    await subscription.say('canceled', daysAgo(4), moved);
    await subscribe().say('active', daysAgo(3));
    expect((await billing()).serviceState).toBe('active');
    expect((await billing(api.other.manage)).serviceState).toBe('canceled');
    await forget();
  });

  it('of two events of one second an end counts, and one that comes again does not undo the other', async () => {
    const subscription = subscribe();
    const created = daysAgo(1);
    const send = (word: string, status: string) =>
      makeEvent(`customer.subscription.${word}`, subscription.make(status), created);
    const [failed, paid, ended] = [
      send('updated', 'past_due'),
      send('updated', 'active'),
      send('deleted', 'canceled'),
    ];
    await sendEvent(api.url, failed);
    await sendEvent(api.url, paid);
    expect(await sendEvent(api.url, failed)).toMatchObject({ outcome: 'repeated' });
    expect((await billing()).serviceState).toBe('active');
    await sendEvent(api.url, ended);
    expect(await sendEvent(api.url, send('updated', 'active'))).toMatchObject({ outcome: 'older' });
    expect((await billing()).serviceState).toBe('canceled');
    await forget();
  });

  it('the same event, many times at once on two replicas, is applied once', async () => {
    const config = { billingSource: 'stripe', stripeWebhookSecret: WEBHOOK_SECRET } as const;
    const replica = await api.startReplica(config);
    const event = makeEvent('customer.subscription.created', subscribe().make('past_due'));
    const sent = await Promise.all(
      Array.from({ length: 10 }, (_, index) => sendEvent(index % 2 ? api.url : replica.url, event)),
    );
    expect(sent.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(sent.filter(({ outcome }) => outcome === 'applied')).toHaveLength(1);
    expect((await billing()).serviceState).toBe('payment_grace');
    await forget();
  });

  it('an event about nothing of ours is answered with 200 and changes nothing', async () => {
    const own = subscribe();
    const unconcerned = [
      makeEvent('product.created', { id: 'prod_1' }),
      makeEvent('charge.refunded', { id: 'ch_1', customer: 'cus_1' }),
      makeEvent('customer.subscription.updated', own.make('canceled', { metadata: {} })),
      makeEvent(
        'customer.subscription.updated',
        own.make('canceled', { metadata: { organizationId: 'acme' } }),
      ),
      makeEvent(
        'customer.subscription.updated',
        own.make('canceled', { metadata: { organizationId: crypto.randomUUID() } }),
      ),
      // A connected account chooses its metadata itself.
      { ...makeEvent('customer.subscription.updated', own.make('canceled')), account: 'acct_1' },
      {
        id: 'evt_thin',
        object: 'v2.core.event',
        type: 'v1.billing.meter.no_meter_found',
        created: '2026-01-01T00:00:00Z',
      },
    ];
    for (const event of unconcerned)
      expect(await sendEvent(api.url, event)).toMatchObject({ status: 200, outcome: 'unconcerned' });
    expect((await billing()).serviceState).toBe('active');
    expect(await billing()).not.toHaveProperty('reconciledAt');
  });

  it('one organization is changed by no event of another one', async () => {
    await subscribe(api.other.organizationId).say('canceled', nowSeconds());
    expect((await billing(api.other.manage)).serviceState).toBe('canceled');
    expect(await billing()).toMatchObject({ serviceState: 'active', subscription: { status: 'none' } });
    await forget();
  });

  it('an event of a kind of ours that cannot be read is refused, so that Stripe sends it again', async () => {
    const own = subscribe();
    for (const object of [
      own.make('hibernating'),
      own.make('trialing', { trial_end: null }),
      own.make('active', { id: "sub_1'; drop" }),
      own.make('active', { id: undefined }),
    ])
      expect(await sendEvent(api.url, makeEvent('customer.subscription.updated', object))).toMatchObject({
        status: 400,
        code: 'service.validation_failed',
      });
    expect((await billing()).subscription.status).toBe('none');
  });
});
