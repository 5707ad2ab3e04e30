// Which changes bring an endpoint to what its Callback wants, and which Callback is the organization's default.
import { describe, expect, it } from 'vitest';
import type { CallbackEndpoint } from '../../../src/contract/resources/callback.ts';
import type { CallbackObject } from '../../../src/operator/kinds/callback/callback-object.ts';
import { callbackReady } from '../../../src/operator/kinds/callback/callback-status.ts';
import {
  createCallbackBodyOf,
  desiredCallback,
  planCallback,
  rotationEveryMs,
} from '../../../src/operator/kinds/callback/desired-callback.ts';
import { rankDefault } from '../../../src/operator/kinds/callback/organization-default.ts';
import { callbackObject, endpoint } from './resources.ts';

const url = 'https://example.com/a';
const desired = (spec: object = {}, address: string | undefined = url) =>
  desiredCallback(callbackObject(spec), { id: 'cb_1', projectId: 'p1', url: address });
const gone = { lifecycle: 'disabled', disabledReason: 'receiver_gone' } as const;

describe('the plan of an endpoint', () => {
  it.each<
    [string, object, Partial<CallbackEndpoint>, { owned?: string[]; isChanged?: boolean }, object | undefined]
  >([
    ['no difference', {}, {}, {}, undefined],
    ['another address', {}, { url: 'https://example.com/b' }, {}, { url }],
    ['an alias', { alias: 'mine' }, {}, {}, { alias: 'mine' }],
    ['an alias that was never set', {}, { alias: 'theirs' }, {}, undefined],
    ['an alias that left the spec', {}, { alias: 'mine' }, { owned: ['alias'] }, { alias: 'oncall' }],
    ['lifecycle disabled', { lifecycle: 'disabled' }, {}, {}, { lifecycle: 'disabled' }],
    ['disabled through the API, not set', {}, { lifecycle: 'disabled' }, { isChanged: true }, undefined],
    [
      'disabled through the API, set active',
      { lifecycle: 'active' },
      { lifecycle: 'disabled' },
      {},
      { lifecycle: 'active' },
    ],
    [
      'a lifecycle that left the spec',
      {},
      { lifecycle: 'disabled' },
      { owned: ['lifecycle'] },
      { lifecycle: 'active' },
    ],
    ['an endpoint whose receiver is gone', {}, gone, {}, undefined],
    ['a receiver that is gone, and lifecycle active', { lifecycle: 'active' }, gone, {}, undefined],
    ['a receiver that is gone, and a new spec', {}, gone, { isChanged: true }, { lifecycle: 'active' }],
    [
      'a receiver that is gone, and a new spec that disables',
      { lifecycle: 'disabled' },
      gone,
      { isChanged: true },
      undefined,
    ],
    [
      'a receiver that is gone, and a new address',
      {},
      { ...gone, url: 'https://example.com/b' },
      {},
      { url, lifecycle: 'active' },
    ],
  ])(
    'the patch of an endpoint for a spec with: %s',
    (_name, spec, has, { owned, isChanged = false }, patch) => {
      expect(planCallback(desired(spec), { endpoint: endpoint(has), owned, isChanged }).patch).toEqual(patch);
    },
  );

  it('the body that creates an endpoint has the destination of its kind and no other', () => {
    const relay = { kind: 'relay_subscriber', url: undefined, relay: { actorId: 'a', notifierId: 'n' } };
    expect(createCallbackBodyOf(desired())).toMatchObject({
      endpointId: 'cb_1',
      alias: 'oncall',
      kind: 'webhook',
      url,
    });
    const goal = desiredCallback(callbackObject(relay), {
      id: 'cb_1',
      projectId: 'p1',
      url: undefined,
    });
    expect(createCallbackBodyOf(goal)).toMatchObject({
      kind: 'relay_subscriber',
      url: undefined,
      relay: relay.relay,
    });
    expect(goal.secretName).toBeUndefined();
  });

  it('the hash of an endpoint does not depend on its id, and depends on its address', () => {
    const of = (id: string, address: string) =>
      desiredCallback(callbackObject(), { id, projectId: 'p1', url: address }).hash;
    expect(of('cb_1', url)).toBe(of('cb_1-2', url));
    expect(of('cb_1', url)).not.toBe(of('cb_1', 'https://example.com/b'));
  });

  it.each([
    ['12h', 43_200_000],
    ['90d', 7_776_000_000],
    [undefined, undefined],
  ])('the rotation interval %s is %s ms', (every, ms) =>
    expect(rotationEveryMs(callbackObject({ rotation: { every } }).spec)).toBe(ms),
  );

  it.each<[Partial<CallbackEndpoint>, CallbackObject['spec']['lifecycle'], string, string]>([
    [{}, undefined, 'True', 'Available'],
    [{}, 'active', 'True', 'Available'],
    [{ lifecycle: 'disabled' }, undefined, 'False', 'EndpointDisabled'],
    [{ lifecycle: 'disabled' }, 'disabled', 'True', 'Disabled'],
    [gone, undefined, 'False', 'DisabledByReceiver'],
    [gone, 'active', 'False', 'DisabledByReceiver'],
    [gone, 'disabled', 'True', 'Disabled'],
  ])(
    'an endpoint with %j whose spec says %s has the condition Ready %s %s',
    (fields, said, status, reason) => {
      const object = callbackObject({ lifecycle: said });
      expect(callbackReady(object, endpoint(fields))).toMatchObject({ status, reason });
    },
  );
});

describe('the default endpoint', () => {
  const asking = (name: string, second: number, metadata: object = {}) =>
    callbackObject(
      { organizationDefault: true },
      { name, uid: name, creationTimestamp: `2026-01-01T00:00:0${second}Z`, ...metadata },
    );
  const [old, young] = [asking('old', 1), asking('young', 2)];
  it('the oldest Callback that asks for the default and may have it is the default', () => {
    expect(rankDefault(old, [young, old], ['payments'])).toEqual({ state: 'first' });
    expect(rankDefault(young, [young, old], ['payments'])).toEqual({
      state: 'older_exists',
      holder: 'payments/old',
    });
    expect(rankDefault(old, [old], ['other'])).toEqual({ state: 'not_allowed' });
    expect(rankDefault(callbackObject(), [old], ['payments'])).toEqual({ state: 'not_asked' });
  });
  it('the next Callback is the default when the oldest is deleted, and the UID decides within one second', () => {
    const going = asking('old', 1, { deletionTimestamp: '2026-02-01T00:00:00Z' });
    expect(rankDefault(young, [young, going], ['payments'])).toEqual({ state: 'first' });
    const [a, b] = [asking('a', 1), asking('b', 1)];
    expect(rankDefault(a, [b, a], ['payments']).state).toBe('first');
    expect(rankDefault(b, [b, a], ['payments']).state).toBe('older_exists');
  });
});
