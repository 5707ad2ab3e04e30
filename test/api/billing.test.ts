// Billing by Stripe: what its signed events do to the billing view, to plans, and to writes, reads and beats
// (docs/contract/organization.md).
// Holds: getBilling.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLog } from '../../src/telemetry/log.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  daysAgo,
  makeEvent,
  makeSubscription,
  newStripeId,
  nowSeconds,
  type SubscriptionOptions,
  sendEvent,
  WEBHOOK_SECRET,
} from '../support/stripe-events.ts';
import { waitFor } from '../support/wait-for.ts';

const DAY_SECONDS = 86_400;
let api: ApiFixture;
const lines: string[] = [];

beforeAll(async () => {
  const log = createLog({ role: 'api', level: 'info' }, { write: (line: string) => void lines.push(line) });
  const config = { billingSource: 'stripe', stripeWebhookSecret: WEBHOOK_SECRET } as const;
  api = await openApiFixture({ log, config });
});
afterAll(() => api?.close());

const billing = async (client = api.read) => (await client.expectSuccess('getBilling')).body;
const timeOf = (seconds: number) => new Date(seconds * 1_000).toISOString();

/** A new subscription of the organization and its customer, and what Stripe says of it. */
function subscribe(organizationId = api.organizationId) {
  const id = newStripeId('sub');
  const customer = newStripeId('cus');
  const make = (status: string, more: Partial<SubscriptionOptions> = {}) =>
    makeSubscription({ id, customer, organizationId, status, ...more });
  const say = (status: string, created: number, more: Partial<SubscriptionOptions> = {}) => {
    const word = status === 'canceled' ? 'deleted' : 'updated';
    return sendEvent(api.url, makeEvent(`customer.subscription.${word}`, make(status, more), created));
  };
  return { id, customer, make, say };
}

/** Ends what a test has begun. */
async function forget(): Promise<void> {
  for (const table of ['subscriptions', 'charges', 'disputes', 'events'])
    await api.pool.query(`delete from billing_${table}`);
  await api.pool.query(
    "update organizations set service_state = 'active', plan = 'scale', state_due_at = null, billing_reconciled_at = null",
  );
}

describe('the billing view', () => {
  it('an organization without a subscription has neither a cancellation nor a portal, and everybody in it may read that', async () => {
    const { organizationId } = api;
    const expected = {
      organizationId,
      plan: { id: 'scale', name: 'Scale', version: 1 },
      serviceState: 'active',
      subscription: { status: 'none' },
      dispute: 'none',
      portalAvailable: false,
    };
    for (const client of [api.read, api.manage, api.viewer, api.owner, api.operator])
      expect(await billing(client)).toEqual(expected);
    expect(await billing(api.owner.as(api.tokens.owner, null))).toEqual(expected);
    expect((await api.anonymous.call('getBilling')).status).toBe(401);
    expect((await api.read.as(api.tokens.read, 'elsewhere').call('getBilling')).status).toBe(404);
  });

  it('a trial states when it ends, and a paid subscription does not', async () => {
    const subscription = subscribe();
    const trialEnd = nowSeconds() + 14 * DAY_SECONDS;
    await subscription.say('trialing', daysAgo(2), { trial_end: trialEnd, plan: 'builder' });
    expect(await billing()).toMatchObject({
      plan: { id: 'builder' },
      serviceState: 'active',
      subscription: { status: 'trialing', cancelAtPeriodEnd: false, trialEndsAt: timeOf(trialEnd) },
      portalAvailable: true,
      reconciledAt: expect.any(String),
    });
    const periodEnd = nowSeconds() + 30 * DAY_SECONDS;
    const changes = { trial_end: trialEnd, cancel_at_period_end: true, current_period_end: periodEnd };
    await subscription.say('active', daysAgo(1), { ...changes, plan: 'smart' });
    const view = await billing();
    expect(view).toMatchObject({ plan: { id: 'smart', name: 'Smart' }, serviceState: 'active' });
    expect(view.subscription).toEqual({
      status: 'active',
      cancelAtPeriodEnd: true,
      currentPeriodEnd: timeOf(periodEnd),
    });
    expect(view).not.toHaveProperty('graceEndsAt');
    await forget();
  });

  it('a cancellation by a moment that is the end of the period is one at the period end', async () => {
    const periodEnd = nowSeconds() + DAY_SECONDS;
    const flexible = { current_period_end: periodEnd, cancel_at: periodEnd };
    await subscribe().say('active', nowSeconds(), flexible);
    expect((await billing()).subscription).toMatchObject({ cancelAtPeriodEnd: true });
    await forget();
  });
});

describe('the states', () => {
  it('an unpaid subscription has a grace of 14 days from the event, in which all goes on; its payment ends the grace', async () => {
    const subscription = subscribe();
    const created = daysAgo(13);
    await subscription.say('past_due', created);
    expect(await billing()).toMatchObject({
      serviceState: 'payment_grace',
      graceEndsAt: timeOf(created + 14 * DAY_SECONDS),
      subscription: { status: 'past_due' },
    });
    expect((await api.owner.call('createProject', { body: { name: crypto.randomUUID() } })).status).toBe(201);
    await subscription.say('past_due', daysAgo(3));
    expect(await billing()).toMatchObject({ graceEndsAt: timeOf(created + 14 * DAY_SECONDS) });
    await subscription.say('active', daysAgo(1));
    const paid = await billing();
    expect(paid.serviceState).toBe('active');
    expect(paid).not.toHaveProperty('graceEndsAt');
    await forget();
  });

  it.each([
    ['past_due', 15, 'canceled'],
    ['past_due', 45, 'deleting'],
    ['canceled', 1, 'canceled'],
    ['canceled', 31, 'deleting'],
  ])(
    'an event %s that comes %i days late says %s at once, and a payment returns to active',
    async (status, days, state) => {
      const subscription = subscribe();
      await subscription.say(status, daysAgo(days));
      const view = await billing();
      expect(view.serviceState).toBe(state);
      expect(view).not.toHaveProperty('graceEndsAt');
      await subscription.say('active', daysAgo(0.5));
      expect((await billing()).serviceState).toBe('active');
      await forget();
    },
  );

  it('a canceled organization and one that is deleting refuse writes and beats, and reads go on', async () => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(60));
    const { publishUrl = '', monitorId } = (
      await api.manage.expectSuccess('createMonitor', { body: { name: 'nightly', intervalSeconds: 86_400 } })
    ).body;
    const ping = `${api.url}${new URL(publishUrl).pathname}`;
    for (const [days, state] of [
      [5, 'canceled'],
      [40, 'deleting'],
    ] as const) {
      await subscription.say('canceled', daysAgo(days));
      expect((await billing()).serviceState).toBe(state);
      const refused = await waitFor(async () => {
        const answer = await api.manage.call('createMonitor', { body: { name: crypto.randomUUID() } });
        return answer.problem?.limit?.serviceState === state ? answer : undefined;
      });
      expect([refused.status, refused.problem?.code]).toEqual([403, 'service.service_suspended']);
      const beat = await waitFor(async () => {
        const answer = await fetch(ping, { method: 'POST', headers: { accept: 'application/json' } });
        return answer.status === 403 ? ((await answer.json()) as { code: string }) : undefined;
      });
      expect(beat.code).toBe('service.service_suspended');
      expect((await api.manage.call('getMonitor', { params: { monitorId } })).status).toBe(200);
    }
    await subscription.say('active', nowSeconds());
    await waitFor(async () => (await fetch(ping, { method: 'POST' })).status === 200);
    await forget();
  });

  it('a subscription that was never paid changes neither plan nor state', async () => {
    const subscription = subscribe();
    for (const [status, days] of [
      ['incomplete', 2],
      ['incomplete_expired', 1],
    ] as const) {
      await subscription.say(status, daysAgo(days));
      expect(await billing()).toMatchObject({
        plan: { id: 'scale' },
        serviceState: 'active',
        subscription: { status },
      });
    }
    await forget();
  });

  it('the end of an old subscription does not end what a new one pays for', async () => {
    const old = subscribe();
    await old.say('active', daysAgo(9), { plan: 'builder' });
    await subscribe().say('active', daysAgo(5), { plan: 'smart' });
    await old.say('canceled', daysAgo(4), { plan: 'builder' });
    expect(await billing()).toMatchObject({ plan: { id: 'smart' }, serviceState: 'active' });
    await forget();
  });

  it('a price that is no plan leaves the plan as it was, and the log says so', async () => {
    await subscribe().say('active', nowSeconds(), { plan: 'gold' });
    expect(await billing()).toMatchObject({ plan: { id: 'scale' }, serviceState: 'active' });
    expect(lines.join('')).toContain('No price of the subscription has a plan');
    await forget();
  });
});

describe('disputes', () => {
  const charge = (customer: string | null, more: object = {}) => {
    const object = { id: newStripeId('ch'), object: 'charge', customer, metadata: {}, ...more };
    return { id: object.id, send: () => sendEvent(api.url, makeEvent('charge.succeeded', object)) };
  };
  const dispute = (chargeId: string) => {
    const id = newStripeId('dp');
    return (word: string, status: string, created = nowSeconds()) => {
      const object = { id, object: 'dispute', charge: chargeId, status };
      return sendEvent(api.url, makeEvent(`charge.dispute.${word}`, object, created));
    };
  };

  it('an open dispute changes nothing, a won one is shown, and a lost one suspends, whatever is paid later', async () => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(9));
    const paid = charge(subscription.customer);
    await paid.send();
    const say = dispute(paid.id);
    await say('created', 'needs_response', daysAgo(5));
    expect(await billing()).toMatchObject({ dispute: 'open', serviceState: 'active' });
    await say('closed', 'won', daysAgo(4));
    expect(await billing()).toMatchObject({ dispute: 'won', serviceState: 'active' });
    const other = charge(subscription.customer);
    await other.send();
    await dispute(other.id)('closed', 'lost', daysAgo(3));
    expect(await billing()).toMatchObject({ dispute: 'lost', serviceState: 'abuse_suspended' });
    await subscription.say('active', daysAgo(1));
    expect((await billing()).serviceState).toBe('abuse_suspended');
    expect((await billing(api.other.manage)).serviceState).toBe('active');
    await forget();
  });

  it('a suspension that somebody lifts by hand stays lifted', async () => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(9));
    const paid = charge(subscription.customer);
    await paid.send();
    await dispute(paid.id)('closed', 'lost');
    await api.pool.query("update organizations set service_state = 'active' where organization_id = $1", [
      api.organizationId,
    ]);
    await subscription.say('active', daysAgo(1));
    expect(await billing()).toMatchObject({ dispute: 'lost', serviceState: 'active' });
    await forget();
  });

  it('an appeal that is lost too suspends nobody again', async () => {
    const subscription = subscribe();
    await subscription.say('active', daysAgo(9));
    const paid = charge(subscription.customer);
    await paid.send();
    const say = dispute(paid.id);
    await say('closed', 'lost', daysAgo(6));
    await api.pool.query("update organizations set service_state = 'active' where organization_id = $1", [
      api.organizationId,
    ]);
    await say('updated', 'appeal_under_review', daysAgo(4));
    expect(await billing()).toMatchObject({ dispute: 'open', serviceState: 'active' });
    await say('closed', 'lost', daysAgo(2));
    expect(await billing()).toMatchObject({ dispute: 'lost', serviceState: 'active' });
    await forget();
  });

  it('in whatever order dispute, charge and subscription come, a lost one suspends the organization of the customer', async () => {
    const subscription = subscribe();
    const paid = charge(subscription.customer);
    const lose = () => dispute(paid.id)('closed', 'lost');
    const begin = () => subscription.say('active', daysAgo(2));
    const orders = [
      [lose, paid.send, begin],
      [paid.send, lose, begin],
      [begin, lose, paid.send],
    ];
    for (const order of orders) {
      for (const send of order) expect((await send()).status).toBe(200);
      expect((await billing()).serviceState).toBe('abuse_suspended');
      await forget();
    }
  });

  it('a charge that names its organization is about that one alone', async () => {
    const subscription = subscribe(api.other.organizationId);
    await subscription.say('active', daysAgo(2));
    const paid = charge(subscription.customer, { metadata: { organizationId: api.organizationId } });
    await paid.send();
    await dispute(paid.id)('closed', 'lost');
    expect((await billing()).serviceState).toBe('abuse_suspended');
    expect((await billing(api.other.manage)).serviceState).toBe('active');
    await forget();
  });
});

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

it('each change of a state or a plan has an audit line with its cause', async () => {
  const subscription = subscribe();
  const event = makeEvent('customer.subscription.updated', subscription.make('past_due'));
  await sendEvent(api.url, event);
  await sendEvent(api.url, event);
  const audits = lines
    .map((line) => JSON.parse(line) as { audit?: { object: { id: string }; change?: { cause: string } } })
    .flatMap(({ audit }) => (audit?.change?.cause.endsWith(event.id) ? [audit] : []));
  const common = {
    actor: { kind: 'system', id: 'stripe', display: 'Stripe' },
    object: { kind: 'organization', id: api.organizationId },
  };
  const cause = `customer.subscription.updated ${event.id}`;
  expect(audits).toEqual([
    {
      ...common,
      action: 'organization.change_state',
      change: { from: 'active', to: 'payment_grace', cause },
    },
    { ...common, action: 'organization.change_plan', change: { from: 'scale', to: 'smart', cause } },
  ]);
  await forget();
});
