// Reflector on a real API server, through a proxy that makes network faults.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ObjectStore, type StoreChange } from '../../src/kube/object-store.ts';
import { Reflector, type ReflectorOptions } from '../../src/kube/reflector.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type ConfigMap,
  configMaps,
  connect,
  connectThroughProxy,
  createNamespace,
  hasCluster,
  metricValue,
  type TestClient,
} from './cluster.ts';

const quick = { baseMs: 50, maxMs: 200 };

describe.skipIf(!hasCluster)('a reflector', () => {
  /** A client that does not use the proxy. */
  let direct: TestClient;
  let test: Awaited<ReturnType<typeof connectThroughProxy>>;
  let namespace: string;
  let changes: StoreChange<ConfigMap>[];
  let running: Reflector<ConfigMap>[];

  beforeEach(async () => {
    direct = connect();
    test = await connectThroughProxy();
    namespace = await createNamespace(direct.client);
    changes = [];
    running = [];
  });
  afterEach(async () => {
    for (const reflector of running) await reflector.stop();
    await test.close();
    await direct.close();
  });

  const create = (name: string, data: Record<string, string> = {}, ns = namespace) =>
    direct.client.create(configMaps, { metadata: { name, namespace: ns }, data });
  const remove = (name: string) => direct.client.delete(configMaps, { namespace, name });

  async function reflect(options: Partial<ReflectorOptions<ConfigMap>> = {}): Promise<Reflector<ConfigMap>> {
    const reflector = new Reflector<ConfigMap>({
      client: test.client,
      resource: configMaps,
      namespace,
      onChange: (change) => changes.push(change),
      tuning: { backoff: quick },
      metrics: test.metrics,
      ...options,
    });
    running.push(reflector);
    reflector.start();
    await reflector.whenSynced();
    return reflector;
  }

  const knows = (reflector: Reflector<ConfigMap>, name: string) =>
    waitFor(() => reflector.store.get(`${namespace}/${name}`), { what: `${name} in the cache` });
  const lists = () => metricValue(test.registry, 'kube_reflector_lists_total', { resource: 'configmaps' });
  const watchIsOpen = (connections = 1) =>
    waitFor(() => test.proxy.open >= connections, { what: 'the watch is open' });

  it('a reflector lists in pages, then follows each change', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await create(name);
    const reflector = await reflect({ tuning: { pageSize: 2, backoff: quick } });
    expect([...reflector.store.keys()].map((key) => key.split('/')[1])).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(changes.map((change) => change.type)).toEqual(Array(5).fill('added'));
    changes = [];
    await create('f');
    await direct.client.mergePatch(configMaps, { namespace, name: 'f' }, { data: { x: '1' } });
    await remove('a');
    await waitFor(() => changes.length === 3, { what: 'three changes' });
    expect(changes).toMatchObject([
      { type: 'added', key: `${namespace}/f` },
      { type: 'updated', key: `${namespace}/f`, object: { data: { x: '1' } } },
      { type: 'deleted', key: `${namespace}/a` },
    ]);
    expect(changes[0]?.object).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap' });
    expect(changes[0]?.object.metadata.managedFields).toBeUndefined();
  });

  it('a reflector resumes its watch after a reset, without a second list', async () => {
    const reflector = await reflect();
    await create('before');
    await knows(reflector, 'before');
    test.proxy.reset();
    await create('after');
    await knows(reflector, 'after');
    expect(await lists()).toBe(1);
    expect(changes.map((change) => change.type)).toEqual(['added', 'added']);
  });

  it('a reflector replaces a black-holed watch after its time limit, and misses no change', async () => {
    // Long enough that the watch with the first event is still open when the proxy cuts it off.
    const tuning = { backoff: quick, watchTimeoutSeconds: [5, 5], watchGraceMs: 500 } as const;
    const reflector = await reflect({ tuning });
    await create('before');
    await knows(reflector, 'before');
    test.proxy.blackHole();
    await create('missed');
    await remove('before');
    test.proxy.forward();
    await knows(reflector, 'missed');
    await waitFor(() => reflector.store.get(`${namespace}/before`) === undefined, { what: 'before is gone' });
    expect(await lists()).toBe(1);
    const silent = { resource: 'configmaps', end: 'silent' };
    expect(await metricValue(test.registry, 'kube_reflector_watches_total', silent)).toBeGreaterThan(0);
  });

  it('a reflector whose watch is black-holed says that it is silent, opens another one long before its time limit, and misses no change', async () => {
    const reflector = await reflect({ tuning: { backoff: quick, silenceMs: 1000 } });
    await create('before');
    await knows(reflector, 'before');
    test.proxy.blackHole();
    await create('missed');
    await waitFor(() => reflector.isSilent, { what: 'it is silent' });
    expect(reflector.store.get(`${namespace}/missed`)).toBeUndefined();
    test.proxy.forward();
    await knows(reflector, 'missed');
    expect(reflector.isSilent).toBe(false);
    expect(await lists()).toBe(1);
  });

  it('a reflector resumes after a half-closed connection and after a reset in the middle of an event', async () => {
    const reflector = await reflect();
    await watchIsOpen();
    test.proxy.halfClose();
    await create('first');
    await knows(reflector, 'first');
    test.proxy.resetAfter(100);
    await create('second', { long: 'x'.repeat(10_000) });
    await knows(reflector, 'second');
    expect(await lists()).toBe(1);
  });

  it('a reflector sees the changes that happened while the API server was away', async () => {
    const reflector = await reflect();
    const old = await create('renewed');
    await create('deleted');
    await knows(reflector, 'deleted');
    await test.proxy.refuse();
    changes = [];
    await remove('deleted');
    await remove('renewed');
    const renewed = await create('renewed');
    await create('added');
    await waitFor(() => reflector.silentMs > 1000, { what: 'several failed tries' });
    expect(changes).toEqual([]);
    await waitFor(() => reflector.isFailing, { what: 'it says that the server is away' });
    await test.proxy.accept();
    await knows(reflector, 'added');
    expect(reflector.isFailing).toBe(false);
    expect(reflector.store.get(`${namespace}/renewed`)?.metadata.uid).toBe(renewed.metadata.uid);
    expect(reflector.store.get(`${namespace}/deleted`)).toBeUndefined();
    const seen = changes.map((change) => [change.type, change.object.metadata.uid]);
    expect(seen).toContainEqual(['deleted', old.metadata.uid]);
    expect(seen).toContainEqual(['added', renewed.metadata.uid]);
  });

  it('a reflector has its server again as soon as the watch is open, also where nothing happens', async () => {
    const reflector = await reflect();
    await watchIsOpen();
    expect(reflector.isFailing).toBe(false);
    await test.proxy.refuse();
    await waitFor(() => reflector.isFailing, { what: 'it says that the server is away' });
    await test.proxy.accept();
    await waitFor(() => !reflector.isFailing, { what: 'it has its server again' });
    expect(await lists()).toBe(1);
  });

  it('a reflector that is stopped and started has one watch, and reports no change after a stop', async () => {
    const reflector = await reflect();
    for (let i = 0; i < 5; i += 1) {
      await reflector.stop();
      reflector.start();
      reflector.start();
    }
    await create('one');
    await knows(reflector, 'one');
    expect(changes).toHaveLength(1);
    // Idle connections close within seconds; a second watch would stay.
    await waitFor(() => test.proxy.open === 1, { what: 'there is one connection' });
    await reflector.stop();
    expect(reflector.isHearing).toBe(false);
    await waitFor(() => test.proxy.open === 0, { what: 'the watch is closed' });
    await create('unseen');
    expect(reflector.store.get(`${namespace}/unseen`)).toBeUndefined();
    expect(changes).toHaveLength(1);
    reflector.start();
    await knows(reflector, 'unseen');
  });

  it('reflectors of two namespaces share a store', async () => {
    const other = await createNamespace(direct.client);
    const store = new ObjectStore<ConfigMap>({
      indexes: { owner: (map) => (map.data?.owner === undefined ? [] : [map.data.owner]) },
    });
    await create('here', { owner: 'me' });
    await create('there', { owner: 'me' }, other);
    await reflect({ store });
    await reflect({ store, namespace: other });
    expect(store.listBy('owner', 'me')).toHaveLength(2);
    expect(store.listInNamespace(other).map((map) => map.metadata.name)).toEqual(['there']);
  });

  it('a reflector follows changes after a change handler has thrown', async () => {
    const reflector = await reflect({
      onChange: () => {
        throw new Error('The handler is broken.');
      },
    });
    await create('one');
    await create('two');
    await knows(reflector, 'two');
    expect(await lists()).toBe(1);
  });
});
