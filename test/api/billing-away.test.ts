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

it('an event whose commit is not answered is a 503, and is not applied again when it is sent again', async () => {
  const event = say('past_due', 1);
  const traces = async () =>
    (
      await api.pool.query(
        `select o.service_state, o.billing_reconciled_at, s.lapsed_at, s.turns
         from organizations o join billing_subscriptions s using (organization_id) where o.organization_id = $1`,
        [api.organizationId],
      )
    ).rows;
  proxy.loseAnswerTo(['insert into billing_events', 'commit\0']);
  expect(await sendEvent(api.url, event)).toMatchObject({ status: 503 });
  expect(proxy.hasLostAnswer).toBe(true);
  const once = await traces();
  expect(once).toMatchObject([{ service_state: 'payment_grace', turns: [{}, {}] }]);
  expect(await sendEvent(api.url, event)).toMatchObject({ status: 200, outcome: 'repeated' });
  expect(await traces()).toEqual(once);
});
