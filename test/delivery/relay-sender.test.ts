// Attempts at the relay: what ntfy gets, and what each of its answers means for a delivery.
import { describe, expect, it } from 'vitest';
import { buildTestEvent } from '../../src/delivery/formats/event.ts';
import { newTopic, topicUrlOf } from '../../src/delivery/relay/relay.ts';
import { RelaySender, type RelaySenderOptions } from '../../src/delivery/relay/relay-sender.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { keepForTest } from '../support/keep.ts';
import { openNtfy } from '../support/ntfy.ts';
import { type Answer, startReceiver, status } from '../support/receiver.ts';

const keep = keepForTest();

const EVENT = buildTestEvent({ atMs: 0, organizationId: 'o', projectId: 'p', endpointId: 'cb_1' });

function sender(relay: RelaySenderOptions['relay']): RelaySender {
  const hostsText = '127.0.0.1 relay.test';
  const resolver = createNameResolver({ hostsText, servers: ['127.0.0.1:1'], searchDomains: [] });
  return keep(new RelaySender({ relay, resolver }));
}

const message = (topic: string) => ({ url: topic, webhookId: 'msg_1', body: EVENT, secrets: [] });

/** As ntfy answers: with the message. */
const published: Answer = (response, { body }) =>
  response.end(
    `${JSON.stringify({ id: 'm1', time: 1, expires: 2, event: 'message', ...JSON.parse(body) })}\n`,
  );

async function sendTo(answer: Answer, token?: string) {
  const receiver = keep(await startReceiver(answer));
  const relay = { url: new URL(receiver.url).origin, token, notifiers: ['ntfy'] };
  const topic = newTopic();
  return { receiver, topic, result: await sender(relay).send(message(topic)) };
}

describe('what the relay gets', () => {
  it('a message is there for who subscribes to the topic, and for no other', async () => {
    const ntfy = keep(await openNtfy());
    const topic = newTopic();
    const result = await sender({ ...ntfy, notifiers: ['ntfy'] }).send(message(topic));
    expect(result).toEqual({ delivered: true, gone: false, statusCode: 200, latencyMs: expect.any(Number) });
    expect(await ntfy.messagesAt(topicUrlOf(ntfy, topic))).toMatchObject([
      { topic, title: 'Test: callback endpoint', message: expect.stringContaining('cb_1'), tags: ['bell'] },
    ]);
    expect(await ntfy.messagesAt(topicUrlOf(ntfy, newTopic()))).toEqual([]);
  });

  it('the token goes to the relay, the topic into the body alone, and no signature is made', async () => {
    const { receiver, topic } = await sendTo(published, 'tk_secret');
    const [request] = receiver.requests;
    expect(request?.path).toBe('/');
    expect(request?.headers).toMatchObject({ authorization: 'Bearer tk_secret' });
    expect(Object.keys(request?.headers ?? {}).filter((name) => name.startsWith('webhook-'))).toEqual([]);
    expect(JSON.parse(request?.body ?? '')).toMatchObject({ topic });
  });

  it('the relay may be at a private address and under a name of the network', async () => {
    const receiver = keep(await startReceiver(published));
    const relay = { url: `http://relay.test:${receiver.port}/push`, notifiers: ['ntfy'] };
    expect(await sender(relay).send(message(newTopic()))).toMatchObject({ delivered: true });
    expect(receiver.requests[0]?.path).toBe('/push/');
  });

  it('a topic that looks like an address leads nowhere else', async () => {
    const elsewhere = keep(await startReceiver(published));
    const receiver = keep(await startReceiver(published));
    const relay = { url: new URL(receiver.url).origin, notifiers: ['ntfy'] };
    await sender(relay).send(message(elsewhere.url));
    expect([receiver.requests.length, elsewhere.requests.length]).toEqual([1, 0]);
  });
});

describe('what an answer means', () => {
  it.each([400, 401, 403, 404, 413, 500, 503, 507])('%i is a failure that is tried again', async (code) => {
    const { result } = await sendTo(status(code));
    expect(result).toMatchObject({ delivered: false, gone: false, statusCode: code });
    expect(result.error).toBeUndefined();
  });

  it('410 is a failure of the relay and does not end the endpoint', async () => {
    expect((await sendTo(status(410))).result).toMatchObject({
      delivered: false,
      gone: false,
      statusCode: 410,
    });
  });

  it('429 is no fault of the delivery, which waits as long as the relay asks for', async () => {
    const { result } = await sendTo((response) => response.writeHead(429, { 'retry-after': '120' }).end());
    expect(result).toMatchObject({
      delivered: false,
      refusedForNow: true,
      statusCode: 429,
      retryAfterMs: 120_000,
    });
  });

  it('a redirect is not followed, so that the token goes to the relay alone', async () => {
    const elsewhere = keep(await startReceiver(published));
    const { result } = await sendTo(
      (response) => response.writeHead(307, { location: elsewhere.url }).end(),
      'tk_secret',
    );
    expect(result).toMatchObject({ delivered: false, statusCode: 307, error: 'redirect' });
    expect(elsewhere.requests).toEqual([]);
  });

  it('the answer of the relay, which names the topic, is shown to nobody', async () => {
    const { result } = await sendTo(published);
    expect(result.delivered).toBe(true);
    expect(result).not.toHaveProperty('body');
  });

  it.each([
    ['a page to sign in', '\n<!doctype html><title>Sign in</title>'],
    ['a page that shows such a message', '<pre>{"id":"m1","event":"message"}</pre>'],
    ['nothing', ''],
    ['a word', 'ok'],
    ['JSON of another server', '{"status":"ok"}'],
    ['JSON of another event', '{"id":"m1","event":"open"}'],
    ['a message without an id', '{"id":"","event":"message"}'],
  ])('a 200 with %s has delivered nothing', async (_, body) => {
    const { result } = await sendTo((response) => response.end(body));
    expect(result).toMatchObject({ delivered: false, gone: false, error: 'protocol' });
    expect(result.statusCode).toBeUndefined();
  });

  it('without a relay each attempt fails and goes nowhere', async () => {
    expect(await sender(undefined).send(message(newTopic()))).toMatchObject({
      delivered: false,
      gone: false,
      error: 'destination_rejected',
    });
  });
});
