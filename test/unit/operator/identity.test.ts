// Which external resource an object stands for, and which of several objects that claim one has it.
import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../src/kube/kube-object.ts';
import { ObjectStore } from '../../../src/kube/object-store.ts';
import { CALLBACK_IDENTITY } from '../../../src/operator/kinds/callback/callback-object.ts';
import { MONITOR_IDENTITY, type MonitorObject } from '../../../src/operator/kinds/monitor/monitor-object.ts';
import { ObjectCache } from '../../../src/operator/known/object-cache.ts';
import { SharedProjects } from '../../../src/operator/known/shared-projects.ts';
import {
  defaultAlias,
  defaultName,
  findHolders,
  idOf,
  nextOwnId,
  ownId,
} from '../../../src/operator/pass/identity.ts';
import { formerOf } from '../../../src/operator/pass/leave.ts';
import { callbackObject, monitorObject } from './resources.ts';

describe('the id of the external resource', () => {
  it("an object's id is its annotation, else one that follows from its UID, and never another one that its status names", () => {
    const annotated = { annotations: { 'beatkeeper.dev/monitor-id': 'theirs' } };
    expect(idOf(MONITOR_IDENTITY, monitorObject())).toBe('mon_11111111222233334444555555555555');
    const forged = { monitorId: 'forged' };
    expect(idOf(MONITOR_IDENTITY, monitorObject({}, {}, forged))).toBe(
      'mon_11111111222233334444555555555555',
    );
    expect(idOf(MONITOR_IDENTITY, monitorObject({}, annotated, forged))).toBe('theirs');
    const own = 'cb_11111111222233334444555555555555';
    const ofStatus = (endpointId: string) => idOf(CALLBACK_IDENTITY, callbackObject({}, {}, { endpointId }));
    expect(idOf(CALLBACK_IDENTITY, callbackObject())).toBe(own);
    expect(ofStatus(`${own}-2`)).toBe(`${own}-2`);
    expect([`${own}2`, `${own}-x`, `${own}-2-3`, 'cb_1'].map(ofStatus)).toEqual([own, own, own, own]);
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

describe('the former resource of an object', () => {
  const kind = { identity: MONITOR_IDENTITY };
  const former = (status: object) => formerOf(kind, monitorObject({}, {}, status), undefined);
  const projectId = '01920000-0000-7000-8000-000000000001';

  it('a status that names no project and no id of the API leads to no call', () => {
    expect(former({ projectId, monitorId: 'was' })).toEqual({ projectId, id: 'was' });
    for (const forged of ['x\ny', '', '\ud800', 'a project', `${projectId}\n`])
      expect(former({ projectId: forged, monitorId: 'was' })).toBeUndefined();
    for (const forged of ['x\ny', '', '../was', 'a'.repeat(129)])
      expect(former({ projectId, monitorId: forged })).toEqual({ projectId, id: undefined });
  });
});

describe('the holder of an id that several objects claim', () => {
  const claimedBy = (objects: readonly MonitorObject[]) => {
    const cache = new ObjectCache<MonitorObject>(MONITOR_IDENTITY, 'test/beatkeeper');
    for (const object of objects) cache.put(object);
    return { identity: MONITOR_IDENTITY, cache };
  };

  const claim = (
    id: string,
    metadata: { uid: string; second?: number; namespace?: string },
    status?: { monitorId: string; projectId: string },
  ) => {
    const { uid, second = 1, ...rest } = metadata;
    const annotations = { 'beatkeeper.dev/monitor-id': id };
    const creationTimestamp = `2026-01-01T00:00:0${second}Z`;
    return monitorObject({}, { name: uid, uid, creationTimestamp, annotations, ...rest }, status);
  };
  const sharedProjects = new SharedProjects();
  const projects = { currentName: (name: string) => name };
  const none = { namespaces: new ObjectStore<KubeObject>(), sharedProjects, projects };
  const holderAmong = (id: string, objects: readonly [MonitorObject, ...MonitorObject[]]) =>
    holdersIn(claimedBy(objects), id, objects[0]);
  const holdersIn = (claims: ReturnType<typeof claimedBy>, id: string, object: MonitorObject) =>
    findHolders(none, claims, { object, id, projectId: 'p1' })
      .map(({ metadata }) => metadata.uid)
      .join(' ');

  it('an id belongs to the object it was made for, then to the one that has it, then the oldest, then the first UID', () => {
    const has = (monitorId: string) => ({ monitorId, projectId: 'p1' });
    const [old, young] = [claim('x', { uid: 'aa', second: 1 }), claim('x', { uid: 'bb', second: 2 })];
    expect(holderAmong('x', [young, old])).toBe('aa');
    expect(holderAmong('x', [old, claim('x', { uid: 'cc', second: 3 }, has('x'))])).toBe('cc');
    const second = claim('mon_bb', { uid: 'cc' }, has('mon_bb'));
    expect(holderAmong('mon_bb', [second, claim('mon_bb', { uid: 'bb', second: 2 })])).toBe('bb');
    expect(holderAmong('x', [claim('x', { uid: 'bb' }), old])).toBe('aa');
  });

  it('a forged status takes an id from nobody: no object has it while two say so, and one of another project does not count', () => {
    const says = (projectId: string) => ({ monitorId: 'x', projectId });
    const having = claim('x', { uid: 'bb', second: 2 }, says('p1'));
    const forger = claim('x', { uid: 'aa', second: 1 }, says('p1'));
    expect(holderAmong('x', [forger, having])).toBe('aa bb');
    expect(holderAmong('x', [having, forger])).toBe('aa bb');
    expect(holderAmong('x', [claim('x', { uid: 'aa', second: 1 }, says('p2')), having])).toBe('bb');
  });

  it('what a pass gave to an object stays with it, whatever statuses say, until a pass gives it to another', () => {
    const says = { monitorId: 'x', projectId: 'p1' };
    const victim = claim('x', { uid: 'bb', second: 2 }, says);
    const forger = claim('x', { uid: 'aa', second: 1 }, says);
    const claims = claimedBy([victim, forger]);
    const give = (object: MonitorObject, id: string, projectId: string, atMs: number) => {
      claims.cache.memoryOf(object).held = { id, projectId, atMs };
    };
    give(forger, 'y', 'p1', 1);
    expect(holdersIn(claims, 'x', victim)).toBe('aa bb');
    give(forger, 'x', 'p2', 1);
    expect(holdersIn(claims, 'x', victim)).toBe('aa bb');
    give(victim, 'x', 'p1', 2);
    expect([victim, forger].map((one) => holdersIn(claims, 'x', one))).toEqual(['bb', 'bb']);
    give(forger, 'x', 'p1', 3);
    expect(holdersIn(claims, 'x', victim)).toBe('aa');
  });

  it('claims are compared in all namespaces of one project, however they write its name', () => {
    const namespaces = new ObjectStore<KubeObject>();
    const named = { shop: 'Web  Shop', stock: ' web shop', other: 'Web Shop 2' };
    for (const [name, project] of Object.entries(named))
      namespaces.put({ metadata: { name, annotations: { 'beatkeeper.dev/project': project } } });
    const shop = claim('shared', { namespace: 'shop', uid: 'bb' }, { monitorId: 'shared', projectId: 'p1' });
    const stock = claim('shared', { namespace: 'stock', uid: 'aa' });
    const other = claim('shared', { namespace: 'other', uid: 'cc' });
    const claims = claimedBy([shop, stock, other]);
    const holderFor = (object: MonitorObject, projectId: string) =>
      findHolders({ namespaces, sharedProjects, projects }, claims, { object, id: 'shared', projectId });
    expect(holderFor(shop, 'p1')).toEqual([shop]);
    expect(holderFor(stock, 'p1')).toEqual([shop]);
    expect(holderFor(other, 'p2')).toEqual([other]);
  });

  it('an object whose namespace may not belong to the project claims nothing in it', () => {
    const namespaces = new ObjectStore<KubeObject>();
    for (const name of ['shop', 'stranger']) {
      const annotations = { 'beatkeeper.dev/project': 'Shop' };
      namespaces.put({ metadata: { name, annotations } });
    }
    const restricted = new SharedProjects([{ project: 'shop', namespaces: ['shop'] }]);
    const had = { monitorId: 'shared', projectId: 'p1' };
    const shop = claim('shared', { namespace: 'shop', uid: 'bb' });
    const stranger = claim('shared', { namespace: 'stranger', uid: 'aa' }, had);
    const claims = claimedBy([shop, stranger]);
    const facts = { object: shop, id: 'shared', projectId: 'p1' };
    expect(findHolders({ namespaces, sharedProjects, projects }, claims, facts)).toEqual([stranger]);
    expect(findHolders({ namespaces, sharedProjects: restricted, projects }, claims, facts)).toEqual([shop]);
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
