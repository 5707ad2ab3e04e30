// Disputes about payments: what they show of an organization, and which one suspends it (docs/contract/organization.md).
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { daysAgo, makeEvent, newStripeId, nowSeconds, sendEvent } from '../support/stripe-events.ts';
import { type BillingFixture, forgetBilling, openBillingFixture, subscribeTo } from './billing-fixture.ts';

let api: BillingFixture;
beforeAll(async () => {
  api = await openBillingFixture();
});
afterAll(() => api?.close());

const billing = async (client = api.read) => (await client.expectSuccess('getBilling')).body;
const subscribe = (organizationId = api.organizationId) => subscribeTo(api, organizationId);
const forget = () => forgetBilling(api);

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
