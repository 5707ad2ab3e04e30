// Which changes bring an endpoint to what its Callback wants, who is the default, and who has an id.
import { describe, expect, it } from 'vitest';
import type { CallbackEndpoint } from '../../../src/contract/resources/callback.ts';
import { callbackReady } from '../../../src/operator/kinds/callback/callback-status.ts';
import { rankDefault } from '../../../src/operator/kinds/callback/default-callback.ts';
import {
  createCallbackBodyOf,
  planCallback,
  rotationEveryMs,
  wantedCallback,
} from '../../../src/operator/kinds/callback/wanted-callback.ts';
import { defaultAlias, defaultName } from '../../../src/operator/resources/defaults.ts';
import {
  endpointIdOf,
  holderOf,
  monitorIdOf,
  nextEndpointId,
  ownId,
} from '../../../src/operator/resources/identity.ts';
import { callbackObject, endpoint, monitorObject } from './resources.ts';

const url = 'https://example.com/a';
const wanted = (spec: object = {}, address: string | undefined = url) =>
  wantedCallback(callbackObject(spec), { endpointId: 'cb_1', projectId: 'p1', url: address });
const gone = { lifecycle: 'disabled', disabledReason: 'receiver_gone' } as const;

describe('the plan of an endpoint', () => {
  it.each<
    [string, object, Partial<CallbackEndpoint>, { owned?: string[]; isChanged?: boolean }, object | undefined]
  >([
    ['nothing differs', {}, {}, {}, undefined],
    ['another address', {}, { url: 'https://example.com/b' }, {}, { url }],
    ['an alias', { alias: 'mine' }, {}, {}, { alias: 'mine' }],
    ['an alias that was never set', {}, { alias: 'theirs' }, {}, undefined],
    ['an alias given back', {}, { alias: 'mine' }, { owned: ['alias'] }, { alias: 'oncall' }],
    ['disabled', { lifecycle: 'disabled' }, {}, {}, { lifecycle: 'disabled' }],
    ['disabled elsewhere, not set', {}, { lifecycle: 'disabled' }, { isChanged: true }, undefined],
    [
      'disabled elsewhere, set active',
      { lifecycle: 'active' },
      { lifecycle: 'disabled' },
      {},
      { lifecycle: 'active' },
    ],
    [
      'a lifecycle given back',
      {},
      { lifecycle: 'disabled' },
      { owned: ['lifecycle'] },
      { lifecycle: 'active' },
    ],
    ['gone', {}, gone, {}, undefined],
    ['gone, though set active', { lifecycle: 'active' }, gone, {}, undefined],
    ['gone, and a new spec', {}, gone, { isChanged: true }, { lifecycle: 'active' }],
    ['gone, and a new spec that disables', { lifecycle: 'disabled' }, gone, { isChanged: true }, undefined],
    [
      'gone, and a new address',
      {},
      { ...gone, url: 'https://example.com/b' },
      {},
      { url, lifecycle: 'active' },
    ],
  ])('%s', (_name, spec, has, { owned, isChanged = false }, patch) => {
    expect(planCallback(wanted(spec), { endpoint: endpoint(has), owned, isChanged }).patch).toEqual(patch);
  });

  it('is made with its destination alone', () => {
    const relay = { kind: 'relay_subscriber', url: undefined, relay: { actorId: 'a', notifierId: 'n' } };
    expect(createCallbackBodyOf(wanted())).toMatchObject({
      endpointId: 'cb_1',
      alias: 'oncall',
      kind: 'webhook',
      url,
    });
    const goal = wantedCallback(callbackObject(relay), {
      endpointId: 'cb_1',
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

  it('is the same desired state under another id, and another one with another address', () => {
    const of = (endpointId: string, address: string) =>
      wantedCallback(callbackObject(), { endpointId, projectId: 'p1', url: address }).hash;
    expect(of('cb_1', url)).toBe(of('cb_1-2', url));
    expect(of('cb_1', url)).not.toBe(of('cb_1', 'https://example.com/b'));
  });

  it.each([
    ['12h', 43_200_000],
    ['90d', 7_776_000_000],
    [undefined, undefined],
  ])('rotates every %s', (every, ms) =>
    expect(rotationEveryMs(callbackObject({ rotation: { every } }).spec)).toBe(ms),
  );

  it.each<[Partial<CallbackEndpoint>, string, string]>([
    [{}, 'True', 'Available'],
    [{ lifecycle: 'disabled' }, 'False', 'EndpointDisabled'],
    [gone, 'False', 'DisabledByReceiver'],
  ])('%j is Ready %s %s', (fields, status, reason) => {
    expect(callbackReady(endpoint(fields))).toMatchObject({ status, reason });
  });
});

describe('the default endpoint', () => {
  const asking = (name: string, second: number, metadata: object = {}) =>
    callbackObject(
      { organizationDefault: true },
      { name, uid: name, creationTimestamp: `2026-01-01T00:00:0${second}Z`, ...metadata },
    );
  const [old, young] = [asking('old', 1), asking('young', 2)];
  it('is the oldest of those that ask and may', () => {
    expect(rankDefault(old, [young, old], ['payments'])).toEqual({ state: 'first' });
    expect(rankDefault(young, [young, old], ['payments'])).toEqual({
      state: 'older_exists',
      holder: 'payments/old',
    });
    expect(rankDefault(old, [old], ['other'])).toEqual({ state: 'not_allowed' });
    expect(rankDefault(callbackObject(), [old], ['payments'])).toEqual({ state: 'not_asked' });
  });
  it('is the next one when the oldest goes, and by UID in one second', () => {
    const going = asking('old', 1, { deletionTimestamp: '2026-02-01T00:00:00Z' });
    expect(rankDefault(young, [young, going], ['payments'])).toEqual({ state: 'first' });
    const [a, b] = [asking('a', 1), asking('b', 1)];
    expect(rankDefault(a, [b, a], ['payments']).state).toBe('first');
    expect(rankDefault(b, [b, a], ['payments']).state).toBe('older_exists');
  });
});

describe('identity', () => {
  it('is the annotation, then what was found before, then the UID', () => {
    const annotated = { annotations: { 'beatkeeper.dev/monitor-id': 'theirs' } };
    expect(monitorIdOf(monitorObject())).toBe('mon_11111111222233334444555555555555');
    expect(monitorIdOf(monitorObject({}, {}, { monitorId: 'found' }))).toBe('found');
    expect(monitorIdOf(monitorObject({}, annotated, { monitorId: 'found' }))).toBe('theirs');
    expect(endpointIdOf(callbackObject())).toBe('cb_11111111222233334444555555555555');
  });

  it('goes on to the next id of an endpoint whose id is used up', () => {
    const object = callbackObject();
    const own = ownId('cb', object);
    expect(nextEndpointId('theirs', object)).toBe(own);
    expect(nextEndpointId(own, object)).toBe(`${own}-2`);
    expect(nextEndpointId(`${own}-2`, object)).toBe(`${own}-3`);
  });

  it('is held by the object that it was made for, then by who has it, then by the oldest, then by UID', () => {
    const of = (uid: string, second: number, status?: { monitorId: string }) =>
      monitorObject({}, { uid, creationTimestamp: `2026-01-01T00:00:0${second}Z` }, status);
    const [old, young, has] = [of('aa', 1), of('bb', 2), of('cc', 3, { monitorId: 'x' })];
    expect(holderOf([young, old], 'x')).toBe(old);
    expect(holderOf([young, old, has], 'x')).toBe(has);
    expect(holderOf([old, young, has], 'mon_bb')).toBe(young);
    expect(holderOf([of('bb', 1), of('aa', 1)], 'x')?.metadata.uid).toBe('aa');
    expect(holderOf([], 'x')).toBeUndefined();
  });

  it('has names that the API takes, however long those of the objects are', () => {
    expect(defaultAlias('on.call')).toBe('on-call');
    const long = `${'a'.repeat(80)}.b`;
    expect(defaultAlias(long)).toMatch(/^a{55}-[0-9a-f]{8}$/);
    expect(defaultAlias(long)).not.toBe(defaultAlias(`${long}c`));
    expect(defaultName('x'.repeat(253))).toHaveLength(160);
    expect(defaultName('short.name')).toBe('short.name');
  });
});
