// The hashes that stand in the status of objects: a release that computes another one applies every object again.
import { expect, it } from 'vitest';
import { desiredCallback } from '../../../src/operator/kinds/callback/desired-callback.ts';
import { formatSpecHash, parseSpecHash, secretHash } from '../../../src/operator/pass/desired-hash.ts';
import { callbackObject, desired } from './resources.ts';

it('the hash of a desired state is the same in every release', () => {
  const callback = { kind: 'named', callbackRef: { name: 'on.call' } };
  expect(desired({ graceSeconds: 90, callback }, { labels: { team: 'a' } }).hash).toBe(
    '72fecb88cf306a9209527d63a57175ca',
  );
  const facts = { id: 'cb_1', projectId: 'p1', url: 'https://example.com/a' };
  expect(desiredCallback(callbackObject({ alias: 'mine' }), facts).hash).toBe(
    '56fe525fd259cb2e1ae2bde416744e9b',
  );
});

it('a specHash holds the hash of the desired state and that of the Secret', () => {
  const secret = secretHash({ url: 'https://example.com/ping/1' });
  expect(secret).toBe('d33fcff11c67');
  expect(parseSpecHash(formatSpecHash({ desired: 'abc', secret }))).toEqual({ desired: 'abc', secret });
  expect(parseSpecHash(undefined)).toEqual({ desired: '', secret: '' });
});
