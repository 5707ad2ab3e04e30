// Every verb of KubeClient on a real API server.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isAlreadyExists, isConflict, isInvalid, isNotFound } from '../../src/kube/kube-error.ts';
import { configMaps, connect, createNamespace, hasCluster, type TestClient } from './cluster.ts';

describe.skipIf(!hasCluster)('the client', () => {
  let test: TestClient;
  let namespace: string;
  beforeAll(async () => {
    test = connect();
    namespace = await createNamespace(test.client);
  });
  afterAll(() => test.close());

  const create = (name: string, data: Record<string, string> = {}) =>
    test.client.create(configMaps, { metadata: { name, namespace }, data });

  it('create stores an object that get reads, and fails with AlreadyExists for a taken name', async () => {
    await create('one', { a: '1' });
    const read = await test.client.get(configMaps, { namespace, name: 'one' });
    expect(read).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap', data: { a: '1' } });
    const error = await create('one').catch((caught: unknown) => caught);
    expect(isAlreadyExists(error)).toBe(true);
    expect(isConflict(error)).toBe(false);
  });

  it('find returns undefined for a missing object, and get throws 404', async () => {
    expect(await test.client.find(configMaps, { namespace, name: 'none' })).toBeUndefined();
    const error = await test.client.get(configMaps, { namespace, name: 'none' }).catch((e: unknown) => e);
    expect(isNotFound(error)).toBe(true);
  });

  it('list and listAll read pages and set the kind that list items lack', async () => {
    for (const name of ['p1', 'p2', 'p3', 'p4', 'p5']) await create(name);
    const page = await test.client.list(configMaps, { namespace, limit: 2 });
    expect(page.items).toHaveLength(2);
    expect(page.items[0]).toMatchObject({ apiVersion: 'v1', kind: 'ConfigMap' });
    expect(page.metadata.continue).not.toBe('');
    const names: string[] = [];
    for await (const item of test.client.listAll(configMaps, { namespace, limit: 2 })) {
      names.push(item.metadata.name);
    }
    expect(names).toEqual(expect.arrayContaining(['p1', 'p2', 'p3', 'p4', 'p5']));
  });

  it('replace throws a conflict for an object that has changed since', async () => {
    const first = await create('moved');
    await test.client.replace(configMaps, { ...first, data: { by: 'other' } });
    const error = await test.client.replace(configMaps, first).catch((caught: unknown) => caught);
    expect(isConflict(error)).toBe(true);
  });

  it('mergePatch keeps other fields, and apply removes a field of its own that is left out', async () => {
    const ref = { namespace, name: 'patched' };
    await create('patched', { kept: 'yes' });
    await test.client.mergePatch(configMaps, ref, { data: { merged: '1' } });
    const apply = (data: Record<string, string>) =>
      test.client.apply(configMaps, { metadata: ref, data } as object as { metadata: typeof ref }, {
        fieldManager: 'tester',
      });
    await apply({ applied: '1', second: '2' });
    await apply({ applied: '1' });
    const read = await test.client.get(configMaps, ref);
    expect(read.data).toEqual({ kept: 'yes', merged: '1', applied: '1' });
  });

  it('create throws Invalid with details for an object that the schema refuses', async () => {
    const error = await create('Not a name').catch((caught: unknown) => caught);
    expect(isInvalid(error)).toBe(true);
    expect(error).toMatchObject({ reason: 'Invalid', details: { kind: 'ConfigMap' } });
  });

  it('delete with a uid does not delete a later object of the same name', async () => {
    const ref = { namespace, name: 'deleted' };
    const old = await create('deleted');
    expect(await test.client.delete(configMaps, ref, { uid: old.metadata.uid })).toBe(true);
    expect(await test.client.delete(configMaps, ref)).toBe(false);
    await create('deleted');
    const error = await test.client
      .delete(configMaps, ref, { uid: old.metadata.uid })
      .catch((caught: unknown) => caught);
    expect(isConflict(error)).toBe(true);
    expect(await test.client.find(configMaps, ref)).toBeDefined();
  });

  it('watch yields the changes after a version', async () => {
    const { metadata } = await test.client.list(configMaps, { namespace });
    await create('watched');
    const stop = new AbortController();
    const watch = (resourceVersion: string) =>
      test.client.watch(configMaps, { namespace, resourceVersion, timeoutSeconds: 30, signal: stop.signal });
    const first = await watch(metadata.resourceVersion ?? '').next();
    expect(first.value).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'watched' } } });
    stop.abort();
  });
});
