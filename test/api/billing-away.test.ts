// Events of Stripe while the database is away, or goes away amid one: Stripe is told to send again, and nothing is lost
// or applied twice.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { daysAgo, makeEvent, makeSubscription, sendEvent, WEBHOOK_SECRET } from '../support/stripe-events.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let proxy: TcpProxy;
let api: ApiFixture;

beforeAll(async () => {
  api = await openApiFixture({
    config: { billingSource: 'stripe', stripeWebhookSecret: WEBHOOK_SECRET },
    databaseUrl: async (url) => {
      proxy = await TcpProxy.start(url);
      return proxy.url;
    },
  });
});
afterAll(async () => {
  await proxy?.accept();
  proxy?.reset();
  await api?.close();
  await proxy?.close();
});

const say = (status: string, days: number) =>
  makeEvent(
    'customer.subscription.updated',
    makeSubscription({ id: 'sub_1', customer: 'cus_1', organizationId: api.organizationId, status }),
    daysAgo(days),
  );
const stateOf = async () =>
  (
    await api.pool.query('select service_state as state from organizations where organization_id = $1', [
      api.organizationId,
    ])
  ).rows[0]?.state;

it('an event that comes while the database is away is a 503, and is applied when it is sent again', async () => {
  const event = say('past_due', 2);
  await proxy.refuse();
  proxy.reset();
  expect(await sendEvent(api.url, event)).toMatchObject({
    status: 503,
    code: 'service.temporarily_unavailable',
  });
  // What concerns nothing of ours needs no database.
  expect(await sendEvent(api.url, makeEvent('product.created', {}))).toMatchObject({ status: 200 });
  await proxy.accept();
  await waitFor(async () => (await sendEvent(api.url, event)).status === 200);
  expect(await stateOf()).toBe('payment_grace');
});

it('an event whose connection breaks anywhere is applied once when it is sent again until it is answered', async () => {
  const event = say('active', 1);
  for (const bytes of [1, 60, 200, 500, 900]) {
    proxy.resetAfter(bytes);
    await sendEvent(api.url, event);
  }
  const last = await waitFor(async () => {
    const sent = await sendEvent(api.url, event);
    return sent.status === 200 ? sent : undefined;
  });
  expect(last.outcome).toMatch(/^(applied|repeated)$/);
  expect(await sendEvent(api.url, event)).toMatchObject({ status: 200, outcome: 'repeated' });
  expect(await stateOf()).toBe('active');
  const { rows } = await api.pool.query(
    'select count(*)::integer as count from billing_events where event_id = $1',
    [event.id],
  );
  expect(rows).toEqual([{ count: 1 }]);
});
