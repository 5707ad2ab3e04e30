// Billing by Stripe: what its signed events do to the billing view, to plans, and to writes, reads and beats
// (docs/contract/organization.md).
// Holds: getBilling.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { daysAgo, makeEvent, nowSeconds, sendEvent } from '../support/stripe-events.ts';
import { waitFor } from '../support/wait-for.ts';
import { type BillingFixture, forgetBilling, openBillingFixture, subscribeTo } from './billing-fixture.ts';

const DAY_SECONDS = 86_400;
let api: BillingFixture;
beforeAll(async () => {
  api = await openBillingFixture();
});
afterAll(() => api?.close());

const billing = async (client = api.read) => (await client.expectSuccess('getBilling')).body;
const timeOf = (seconds: number) => new Date(seconds * 1_000).toISOString();
const subscribe = (organizationId = api.organizationId) => subscribeTo(api, organizationId);
const forget = () => forgetBilling(api);

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
    expect(api.lines.join('')).toContain('No price of the subscription has a plan');
    await forget();
  });
});

it('each change of a state or a plan has an audit line with its cause', async () => {
  const subscription = subscribe();
  const event = makeEvent('customer.subscription.updated', subscription.make('past_due'));
  await sendEvent(api.url, event);
  await sendEvent(api.url, event);
  const audits = api.lines
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
