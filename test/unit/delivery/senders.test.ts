import { afterAll, expect, it } from 'vitest';
import { Senders } from '../../../src/delivery/senders.ts';
import { parseAllowedDestinations } from '../../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../../src/delivery/webhook/name-resolver.ts';
import { WebhookSender } from '../../../src/delivery/webhook/webhook-sender.ts';

const senders = new Senders({ allowed: parseAllowedDestinations(''), resolver: createNameResolver() });
afterAll(() => senders.close());

it('a webhook endpoint has the standard format when it states none', () => {
  expect(senders.of({ kind: 'webhook' })).toBeInstanceOf(WebhookSender);
  expect(senders.of({ kind: 'webhook' })).toBe(senders.of({ kind: 'webhook', format: 'standard' }));
});

it.each([
  { kind: 'webhook', format: 'slack' },
  { kind: 'relay_group', format: 'slack' },
] as const)('an endpoint without a sender is refused and not sent in another format: %j', (endpoint) => {
  expect(() => senders.of(endpoint)).toThrow(`no sender for ${endpoint.kind} endpoints`);
});
