import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { newSigningSecret, signatureHeaders, signingKey } from '../../../src/delivery/webhook/signature.ts';

const nowSeconds = (): number => Date.now() / 1000;
const webhookOf = (secret: string): Webhook => new Webhook(signingKey(secret).toString('base64'));

describe('a signing secret', () => {
  it('a signing secret has the form of the contract and is new each time', () => {
    const secrets = Array.from({ length: 1_000 }, newSigningSecret);
    for (const secret of secrets) expect(secret).toMatch(/^sigcb_v1_[A-Za-z0-9_-]{43}$/);
    expect(new Set(secrets).size).toBe(1_000);
  });

  it('the key of a signing secret is the 32 bytes that its 43 characters encode', () => {
    const key = Buffer.from(Array.from({ length: 32 }, (_, index) => index * 8));
    expect(signingKey(`sigcb_v1_${key.toString('base64url')}`)).toEqual(key);
  });

  it.each([
    '',
    'sigcb_v1_',
    `whsec_${'A'.repeat(43)}`,
    `sigcb_v1_${'A'.repeat(42)}`,
    `sigcb_v1_${'A'.repeat(44)}`,
  ])('%j is not a signing secret', (text) => {
    expect(() => signingKey(text)).toThrow('not a signing secret');
  });

  it('the error about a bad secret does not show it', () => {
    expect(() => signingKey('sigcb_v1_planted')).toThrow(/^(?!.*planted)/);
  });
});

describe('the signature', () => {
  it('the standardwebhooks package verifies the signature of any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.uuid(), (text, id) => {
        const secret = newSigningSecret();
        const body = JSON.stringify({ text });
        const headers = signatureHeaders({
          webhookId: `msg_${id}`,
          timestampSeconds: nowSeconds(),
          body,
          secrets: [secret],
        });
        expect(webhookOf(secret).verify(body, headers)).toEqual({ text });
      }),
    );
  });

  it('two secrets give two signatures, newest first', () => {
    const [newest, older] = [newSigningSecret(), newSigningSecret()];
    const input = { webhookId: 'msg_1', timestampSeconds: nowSeconds(), body: '{}' };
    const both = signatureHeaders({ ...input, secrets: [newest, older] });
    const alone = [newest, older].map((secret) => signatureHeaders({ ...input, secrets: [secret] }));
    expect(both['webhook-signature']).toBe(alone.map((headers) => headers['webhook-signature']).join(' '));
    for (const secret of [newest, older]) expect(webhookOf(secret).verify('{}', both)).toEqual({});
  });

  it('the signature covers id, timestamp and body', () => {
    const secret = newSigningSecret();
    const headers = signatureHeaders({
      webhookId: 'msg_1',
      timestampSeconds: nowSeconds(),
      body: '{}',
      secrets: [secret],
    });
    const verify = (changed: object, body = '{}') =>
      webhookOf(secret).verify(body, { ...headers, ...changed });
    expect(() => verify({}, '{ }')).toThrow();
    expect(() => verify({ 'webhook-id': 'msg_2' })).toThrow();
    expect(() => verify({ 'webhook-timestamp': String(Number(headers['webhook-timestamp']) + 1) })).toThrow();
  });

  it('the signature is that of the specification’s own example', () => {
    // standard-webhooks: spec; the key is the base64 of `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`.
    const key = Buffer.from('MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'base64');
    const padded = Buffer.concat([key, Buffer.alloc(32 - key.length)]);
    // HMAC pads short keys with zeros, so the padded key gives the same signature.
    const headers = signatureHeaders({
      webhookId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestampSeconds: 1_614_265_330,
      body: '{"test": 2432232314}',
      secrets: [`sigcb_v1_${padded.toString('base64url')}`],
    });
    expect(headers['webhook-signature']).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
  });

  it('a message without a secret is not signed', () => {
    const input = { webhookId: 'msg_1', timestampSeconds: 1, body: '{}', secrets: [] };
    expect(() => signatureHeaders(input)).toThrow('at least one');
  });
});
