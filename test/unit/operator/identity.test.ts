// Which external resource an object stands for, and which of several objects that claim one has it.
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import { ObjectStore } from '../../../src/kube/object-store.ts';
import { CALLBACK_IDENTITY } from '../../../src/operator/kinds/callback/callback-object.ts';
import { MONITOR_IDENTITY, type MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { ObjectCache } from '../../../src/operator/known/object-cache.ts';
import {
  defaultAlias,
  defaultName,
  findHolder,
  hasConflictingClaim,
  idOf,
  nextOwnId,
  ownId,
} from '../../../src/operator/pass/identity.ts';
import { callbackObject, monitorObject } from './resources.ts';

describe('the id of the external resource', () => {
  it("an object's id is its annotation, then the id in its status, then one that follows from its UID", () => {
    const annotated = { annotations: { 'beatkeeper.dev/monitor-id': 'theirs' } };
    expect(idOf(MONITOR_IDENTITY, monitorObject())).toBe('mon_11111111222233334444555555555555');
    expect(idOf(MONITOR_IDENTITY, monitorObject({}, {}, { monitorId: 'found' }))).toBe('found');
    expect(idOf(MONITOR_IDENTITY, monitorObject({}, annotated, { monitorId: 'found' }))).toBe('theirs');
    expect(idOf(CALLBACK_IDENTITY, callbackObject())).toBe('cb_11111111222233334444555555555555');
  });

  it('the id of an endpoint counts up when the API refuses a removed id', () => {
    const object = callbackObject();
    const own = ownId(CALLBACK_IDENTITY, object);
    const next = (id: string) => nextOwnId(CALLBACK_IDENTITY, object, id);
    expect(next('theirs')).toBe(own);
    expect(next(own)).toBe(`${own}-2`);
    expect(next(`${own}-2`)).toBe(`${own}-3`);
  });
});

describe('the holder of an id that several objects claim', () => {
  const claimedBy = (objects: readonly MonitorObject[]) => {
    const cache = new ObjectCache<MonitorObject>(MONITOR_IDENTITY);
    for (const object of objects) cache.put(object);
    return { identity: MONITOR_IDENTITY, cache };
  };

  it('an id belongs to the object it was made for, then to the one that has it, then the oldest, then the first UID', () => {
    const namespaces = new ObjectStore<KubeObject>();
    const claim = (id: string, uid: string, second: number, status?: { monitorId: string }) => {
      const annotations = { 'beatkeeper.dev/monitor-id': id };
      const creationTimestamp = `2026-01-01T00:00:0${second}Z`;
      return monitorObject({}, { name: uid, uid, creationTimestamp, annotations }, status);
    };
    const holderAmong = (id: string, objects: readonly [MonitorObject, ...MonitorObject[]]) =>
      findHolder({ namespaces }, claimedBy(objects), { object: objects[0], id }).metadata.uid;
    expect(holderAmong('x', [claim('x', 'bb', 2), claim('x', 'aa', 1)])).toBe('aa');
    expect(holderAmong('x', [claim('x', 'aa', 1), claim('x', 'cc', 3, { monitorId: 'x' })])).toBe('cc');
    const has = claim('mon_bb', 'cc', 1, { monitorId: 'mon_bb' });
    expect(holderAmong('mon_bb', [has, claim('mon_bb', 'bb', 2)])).toBe('bb');
    expect(holderAmong('x', [claim('x', 'bb', 1), claim('x', 'aa', 1)])).toBe('aa');
  });

  it('conflicting claims are found in all namespaces of one project, however they write its name', () => {
    const namespaces = new ObjectStore<KubeObject>();
    const projects = { shop: 'Web  Shop', stock: ' web shop', other: 'Web Shop 2' };
    for (const [name, project] of Object.entries(projects))
      namespaces.put({ metadata: { name, annotations: { 'beatkeeper.dev/project': project } } });
    const [shop, stock, other] = Object.keys(projects).map((namespace) => {
      const annotations = { 'beatkeeper.dev/monitor-id': 'shared' };
      const status = namespace === 'shop' ? { monitorId: 'shared' } : {};
      return monitorObject({}, { namespace, uid: `uid-${namespace}`, annotations }, status);
    });
    if (!shop || !stock || !other) throw new Error('An object is missing.');
    const claims = claimedBy([shop, stock, other]);
    const conflicts = [shop, stock, other].map((object) =>
      hasConflictingClaim({ namespaces }, claims, { object, id: 'shared' }),
    );
    expect(conflicts).toEqual([true, true, false]);
    expect(findHolder({ namespaces }, claims, { object: stock, id: 'shared' })).toBe(shop);
    expect(findHolder({ namespaces }, claims, { object: other, id: 'shared' })).toBe(other);
  });
});

it('a default alias or name is one that the API takes, however long the name of the object is', () => {
  expect(defaultAlias('on.call')).toBe('on-call');
  const long = `${'a'.repeat(80)}.b`;
  expect(defaultAlias(long)).toMatch(/^a{55}-[0-9a-f]{8}$/);
  expect(defaultAlias(long)).not.toBe(defaultAlias(`${long}c`));
  expect(defaultName('x'.repeat(253))).toHaveLength(160);
  expect(defaultName('short.name')).toBe('short.name');
});
