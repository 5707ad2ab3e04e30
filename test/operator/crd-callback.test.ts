// The definition of Callback on a real API server: what `kubectl apply` accepts, and how it refuses the rest.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasCluster } from '../kube/cluster.ts';
import { type CrdFixture, openCrdFixture, type Refused, CALLBACK_URL as url } from './crd-fixture.ts';

const goodCallbacks: Record<string, object> = {
  webhook: { url },
  'secret-url': { kind: 'webhook', urlSecretRef: { name: 'chat', key: 'url' }, organizationDefault: true },
  rotated: { url, rotation: { every: '90d', overlapSeconds: 900 }, signingSecretName: 'keys' },
  person: { kind: 'relay_subscriber', relay: { actorId: 'me', notifierId: 'push' } },
  group: { kind: 'relay_group', relayGroup: { notifierId: 'push' }, lifecycle: 'disabled' },
};
const badCallbacks: Refused[] = [
  ['nowhere', {}, 'Set url, or urlSecretRef where the address is a secret'],
  [
    'two-urls',
    { url, urlSecretRef: { name: 'chat', key: 'url' } },
    'Set either url or urlSecretRef, not both.',
  ],
  [
    'relay-with-url',
    { kind: 'relay_group', url, relayGroup: { notifierId: 'a' } },
    'Remove url and urlSecretRef',
  ],
  ['no-relay', { kind: 'relay_subscriber' }, 'Set relay for the kind relay_subscriber'],
  ['stray-group', { url, relayGroup: { notifierId: 'a' } }, 'Set relayGroup for the kind relay_group'],
  [
    'relay-rotation',
    { kind: 'relay_group', relayGroup: { notifierId: 'a' }, rotation: { every: '1d' } },
    'Remove rotation and signingSecretName',
  ],
  ['rotation-minutes', { url, rotation: { every: '90m' } }, 'Set a number of hours or days'],
  ['rotation-years', { url, rotation: { every: '366d' } }, 'Set at most 365d.'],
  ['rotation-hours', { url, rotation: { every: '8761h' } }, 'Set at most 365d.'],
  ['long-overlap', { url, rotation: { overlapSeconds: 901 } }, 'should be less than or equal to 900'],
  ['bad-alias', { url, alias: 'a.b' }, 'Must start with a letter or digit'],
];

describe.skipIf(!hasCluster)('the definition of Callback', () => {
  let fixture: CrdFixture;
  beforeAll(async () => {
    fixture = await openCrdFixture();
  });
  afterAll(() => fixture?.close());

  it('the API server accepts a good Callback without a warning', () =>
    fixture.expectAccepted('Callback', goodCallbacks));

  it('the API server refuses a bad Callback with a sentence that says what to do', () =>
    fixture.expectRefused('Callback', badCallbacks));

  it('the kind of a Callback cannot be changed, and may be spelled out later', async () => {
    const apply = (spec: object) => fixture.apply('Callback', 'oncall', spec);
    expect((await apply({ url })).code).toBe(0);
    expect((await apply({ kind: 'webhook', url })).code).toBe(0);
    const changed = await apply({ kind: 'relay_group', relayGroup: { notifierId: 'a' } });
    expect(changed.stderr).toContain('Leave kind as it is');
  });
});
