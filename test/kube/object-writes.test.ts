// applyStatus and removeFinalizer on a custom resource of a real API server.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyStatus } from '../../src/kube/apply-status.ts';
import { setCondition } from '../../src/kube/conditions.ts';
import { removeFinalizer } from '../../src/kube/finalizers.ts';
import { isConflict, isNotFound } from '../../src/kube/kube-error.ts';
import { connect, createNamespace, hasCluster, metricValue, type TestClient } from './cluster.ts';
import { defineWidgets, widgets } from './widget.ts';

const fieldManager = 'kube-test';
const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe.skipIf(!hasCluster)('writes on an object', () => {
  let test: TestClient;
  let namespace: string;
  beforeAll(async () => {
    test = connect();
    namespace = await createNamespace(test.client);
    await defineWidgets(test.client);
  });
  afterAll(() => test.close());

  const create = (name: string) =>
    test.client.create(widgets, { metadata: { name, namespace }, spec: { size: 1 } });
  const read = (name: string) => test.client.get(widgets, { namespace, name });
  const patches = () => metricValue(test.registry, 'rest_client_requests_total', { method: 'PATCH' });

  describe('status', () => {
    const nowMs = Date.parse('2026-01-02T03:04:05.678Z');
    const ready = (status: 'True' | 'False', generation = 1) =>
      setCondition(
        setCondition(
          undefined,
          { type: 'Synced', status: 'True', reason: 'Done', message: 'm' },
          { generation, nowMs },
        ),
        { type: 'Ready', status, reason: 'Tested', message: 'm' },
        { generation, nowMs },
      );

    it('applyStatus writes a status once and sends nothing while it stays the same', async () => {
      const object = await create('once');
      const status = { text: 'hello', missing: undefined, conditions: ready('True') };
      const stored = await applyStatus(test.client, widgets, { object, status, fieldManager });
      expect(stored?.status).toMatchObject({ text: 'hello' });
      const before = await patches();
      const again = { ...status, conditions: ready('True').toReversed() };
      for (const object of [stored ?? (await read('once')), await read('once')]) {
        expect(
          await applyStatus(test.client, widgets, { object, status: again, fieldManager }),
        ).toBeUndefined();
      }
      expect(await patches()).toBe(before);
      expect((await read('once')).metadata.generation).toBe(1);
    });

    it('applyStatus from a stale copy is refused, so that a stale cache moves no condition', async () => {
      const old = await create('stale');
      const write = { object: old, status: { text: 'a', conditions: ready('True') }, fieldManager };
      const stored = await applyStatus(test.client, widgets, write);
      expect(isConflict(await caught(applyStatus(test.client, widgets, write)))).toBe(true);
      expect((await read('stale')).metadata.resourceVersion).toBe(stored?.metadata.resourceVersion);
    });

    it('applyStatus removes a field that the status leaves out', async () => {
      const object = await create('left-out');
      const stored = await applyStatus(test.client, widgets, { object, status: { text: 'a' }, fieldManager });
      const status = { conditions: ready('False') };
      await applyStatus(test.client, widgets, { object: stored ?? object, status, fieldManager });
      expect((await read('left-out')).status).toEqual(status);
    });

    it('applyStatus makes the status equal to the desired one, also where another manager has written', async () => {
      await create('of-two');
      const theirs = { text: 'theirs', conditions: [{ ...ready('True')[0], type: 'Theirs' }] };
      const write = { subresource: 'status' as const, fieldManager: 'somebody' };
      const object = await test.client.mergePatch(
        widgets,
        (await read('of-two')).metadata,
        { status: theirs },
        write,
      );
      const ours = { text: 'ours', conditions: ready('True') };
      const stored = await applyStatus(test.client, widgets, { object, status: ours, fieldManager });
      expect(stored?.status).toEqual(ours);
      expect((await read('of-two')).status).toEqual(ours);
      const status = { conditions: ready('True') };
      await applyStatus(test.client, widgets, { object: stored ?? object, status, fieldManager });
      expect((await read('of-two')).status).toEqual(status);
    });

    it('applyStatus fails for a deleted object and for a later object of the same name', async () => {
      const object = await create('again');
      await test.client.delete(widgets, object.metadata);
      const write = { object, status: { text: 'old' }, fieldManager };
      expect(isNotFound(await caught(applyStatus(test.client, widgets, write)))).toBe(true);
      await create('again');
      expect(await caught(applyStatus(test.client, widgets, write))).toMatchObject({ status: 409 });
      expect((await read('again')).status).toBeUndefined();
    });
  });

  describe('finalizers', () => {
    const ours = 'kube-test.example.org/sync';
    const theirs = 'kube-test.example.org/other';

    const hold = async (name: string, finalizers = [ours]) => {
      const { metadata } = await create(name);
      return await test.client.mergePatch(widgets, metadata, { metadata: { finalizers } });
    };

    it('removeFinalizer removes only its own finalizer, from a stale copy too', async () => {
      const stale = await hold('shared');
      const change = { metadata: { finalizers: [theirs, ours] }, spec: { size: 2 } };
      await test.client.mergePatch(widgets, stale.metadata, change);
      await removeFinalizer(test.client, widgets, stale, ours);
      const after = await read('shared');
      expect(after).toMatchObject({ metadata: { finalizers: [theirs] }, spec: { size: 2 } });
      const before = await patches();
      await removeFinalizer(test.client, widgets, after, ours);
      expect(await patches()).toBe(before);
    });

    it('an object is deleted when removeFinalizer removes its last finalizer, and a second call does nothing', async () => {
      const held = await hold('held');
      await test.client.delete(widgets, held.metadata);
      const deleting = await read('held');
      expect(deleting.metadata.deletionTimestamp).toBeDefined();
      await removeFinalizer(test.client, widgets, deleting, ours);
      expect(await test.client.find(widgets, held.metadata)).toBeUndefined();
      await removeFinalizer(test.client, widgets, deleting, ours);
    });

    it('removeFinalizer does not touch a later object of the same name', async () => {
      const old = await hold('later');
      await removeFinalizer(test.client, widgets, old, ours);
      await test.client.delete(widgets, old.metadata);
      await hold('later');
      await removeFinalizer(test.client, widgets, old, ours);
      expect((await read('later')).metadata.finalizers).toEqual([ours]);
    });
  });
});
