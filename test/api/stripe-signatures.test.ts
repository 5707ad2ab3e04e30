// Who may send to /billing/stripe: Stripe alone, by its signature over the bytes; and what a stranger's body may cost.
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createLog } from '../../src/telemetry/log.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import {
  makeEvent,
  makeSubscription,
  nowSeconds,
  sendEvent,
  signatureOf,
  WEBHOOK_SECRET,
} from '../support/stripe-events.ts';
import { waitFor } from '../support/wait-for.ts';

let api: ApiFixture;
const lines: string[] = [];

beforeAll(async () => {
  const log = createLog({ role: 'api', level: 'debug' }, { write: (line: string) => void lines.push(line) });
  api = await openApiFixture({
    log,
    config: { billingSource: 'stripe', stripeWebhookSecret: WEBHOOK_SECRET },
  });
});
afterAll(() => api?.close());

const own = () =>
  makeEvent(
    'customer.subscription.updated',
    makeSubscription({
      id: 'sub_1',
      customer: 'cus_1',
      organizationId: api.organizationId,
      status: 'canceled',
    }),
  );

it.each<[string, (body: string) => { body?: string; signature: string }]>([
  ['of another secret', (body) => ({ signature: signatureOf(body, 'whsec_other') })],
  ['of another body', (body) => ({ body: body.replace('canceled', 'active'), signature: signatureOf(body) })],
  [
    'of another form of the same JSON',
    (body) => ({ body: JSON.stringify(JSON.parse(body)), signature: signatureOf(body) }),
  ],
  [
    'that is older than five minutes',
    (body) => ({ signature: signatureOf(body, WEBHOOK_SECRET, nowSeconds() - 302) }),
  ],
  [
    'with a newer time than was signed',
    (body) => ({ signature: signatureOf(body, WEBHOOK_SECRET, 1).replace('t=1,', `t=${nowSeconds()},`) }),
  ],
  ['of another scheme', (body) => ({ signature: signatureOf(body).replace('v1=', 'v0=') })],
  ['without a time', (body) => ({ signature: signatureOf(body).replace(/^t=\d+,/, '') })],
  ['that is none', () => ({ signature: 'none' })],
  ['that is empty', () => ({ signature: '' })],
])('an event with a signature %s is refused and changes nothing', async (_what, forge) => {
  const genuine = JSON.stringify(own(), null, 2);
  const { body = genuine, signature } = forge(genuine);
  const answer = await sendEvent(api.url, body, { 'stripe-signature': signature });
  expect(answer).toMatchObject({ status: 400, code: 'service.validation_failed' });
  const { body: view } = await api.read.expectSuccess('getBilling');
  expect(view).toMatchObject({ serviceState: 'active', subscription: { status: 'none' } });
});

it('an event without a signature is refused before its body is read', async () => {
  const answer = await fetch(`${api.url}/billing/stripe`, { method: 'POST', body: JSON.stringify(own()) });
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ fieldErrors: [{ path: 'Stripe-Signature' }] });
});

it('a signed body that is no JSON, or none, is refused', async () => {
  for (const body of ['{"id": "evt_', '', 'null', '[]', '"text"'])
    expect(await sendEvent(api.url, body)).toMatchObject({ status: 400, code: 'service.validation_failed' });
});

it('an event may have one MiB, and a larger body is refused', async () => {
  const padded = (bytes: number) => {
    const event = { ...makeEvent('product.created', {}), padding: '' };
    const length = Buffer.byteLength(JSON.stringify(event));
    return JSON.stringify({ ...event, padding: 'x'.repeat(bytes - length) });
  };
  expect(await sendEvent(api.url, padded(1_048_576))).toMatchObject({ status: 200 });
  expect(await sendEvent(api.url, padded(1_048_577))).toMatchObject({
    status: 413,
    code: 'service.payload_too_large',
  });
});

it('senders that never end their bodies do not keep Stripe from sending', async () => {
  const { hostname, port } = new URL(api.url);
  const ended = new Set<Socket>();
  const sockets = Array.from({ length: 40 }, () => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined).on('close', () => ended.add(socket));
    socket.write(
      'POST /billing/stripe HTTP/1.1\r\nHost: x\r\nStripe-Signature: t=1,v1=00\r\nContent-Length: 1000000\r\n\r\n{',
    );
    return socket;
  });
  await waitFor(() => ended.size >= 8);
  expect(await sendEvent(api.url, makeEvent('product.created', {}))).toMatchObject({ status: 200 });
  for (const socket of sockets) socket.destroy();
});

it('no other method and no credential helps', async () => {
  const get = await fetch(`${api.url}/billing/stripe`);
  expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST']);
  const body = JSON.stringify(own());
  const headers = { authorization: `Bearer ${api.tokens.owner}` };
  expect((await fetch(`${api.url}/billing/stripe`, { method: 'POST', headers, body })).status).toBe(400);
});

it('no log line has the secret or a signature, and refusals are logged and counted', async () => {
  expect(lines.join('')).not.toContain(WEBHOOK_SECRET);
  expect(lines.join('')).not.toMatch(/v1=[0-9a-f]{8}/);
  expect(lines.join('')).toContain('An event of Stripe was refused.');
  const metrics = await (await fetch(`${api.healthUrl}/metrics`)).text();
  expect(metrics).toMatch(/beatkeeper_billing_events_total\{outcome="refused"\} [1-9]/);
});

it('an installation with plans of its own values takes no events, and shows nothing of what was said before', async () => {
  await sendEvent(api.url, own());
  const replica = await api.startReplica({ billingSource: 'static' });
  expect((await sendEvent(replica.url, own())).status).toBe(404);
  const answer = await fetch(`${replica.url}/v1/organization/billing`, {
    headers: { authorization: `Bearer ${api.tokens.read}` },
  });
  expect(await answer.json()).toEqual({
    organizationId: api.organizationId,
    plan: { id: 'scale', name: 'Scale', version: 1 },
    serviceState: 'canceled',
    subscription: { status: 'none' },
    dispute: 'none',
    portalAvailable: false,
  });
});
