// Reflector, queue, controller and status together on a real API server: the loop of an operator.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { applyStatus } from '../../src/kube/apply-status.ts';
import { setCondition } from '../../src/kube/conditions.ts';
import { Controller, type Reconcile } from '../../src/kube/controller.ts';
import { removeFinalizer } from '../../src/kube/finalizers.ts';
import { Reflector } from '../../src/kube/reflector.ts';
import { waitFor } from '../support/wait-for.ts';
import { connect, createNamespace, hasCluster, metricValue, type TestClient } from './cluster.ts';
import { defineWidgets, type Widget, widgets } from './widget.ts';

const fieldManager = 'kube-test';
const finalizer = 'kube-test.example.org/sync';

describe.skipIf(!hasCluster)('a controller on a cluster', () => {
  let test: TestClient;
  let namespace: string;
  let reflector: Reflector<Widget>;
  let controller: Controller;
  /** What reconciles have stored outside of the cluster, as in the REST API. */
  let outside: Set<string>;

  beforeEach(async () => {
    test = connect();
    await defineWidgets(test.client);
    namespace = await createNamespace(test.client);
    outside = new Set();
  });
  afterEach(async () => {
    await controller.stop(1000);
    await reflector.stop();
    await test.close();
  });

  const reconcile: Reconcile = async (key) => {
    const found = reflector.store.get(key);
    if (found === undefined) return undefined;
    if (found.metadata.deletionTimestamp !== undefined) {
      outside.delete(key);
      await removeFinalizer(test.client, widgets, found, finalizer);
      return undefined;
    }
    const { name, finalizers, resourceVersion } = found.metadata;
    const mark = { metadata: { finalizers: [finalizer], resourceVersion } };
    const object = finalizers?.includes(finalizer)
      ? found
      : await test.client.mergePatch(widgets, { namespace, name }, mark);
    outside.add(key);
    const ready = { type: 'Ready', status: 'True', reason: 'Tested', message: 'It is ready.' } as const;
    const moment = { generation: object.metadata.generation, nowMs: Date.now() };
    const conditions = setCondition(object.status?.conditions, ready, moment);
    await applyStatus(test.client, widgets, { object, status: { conditions }, fieldManager });
    return undefined;
  };

  async function run(): Promise<void> {
    const { client, metrics } = test;
    controller = new Controller({ name: 'widget', reconcile, metrics });
    const enqueue = (key: string) => controller.enqueue(key, reflector.hasSynced ? 'normal' : 'low');
    const onChange = ({ key }: { key: string }) => enqueue(key);
    reflector = new Reflector({ client, resource: widgets, namespace, onChange, metrics });
    reflector.start();
    await reflector.whenSynced();
    controller.start();
  }

  const create = (name: string) =>
    test.client.create(widgets, { metadata: { name, namespace }, spec: { size: 1 } });
  const read = (name: string) => test.client.get(widgets, { namespace, name });
  const readyFor = (name: string, generation: number) =>
    waitFor(
      async () => {
        const widget = await read(name);
        return widget.status?.conditions?.[0]?.observedGeneration === generation && widget;
      },
      { what: `${name} is ready for generation ${generation}` },
    );
  const writes = () =>
    metricValue(test.registry, 'rest_client_requests_total', { method: 'PATCH', code: '200' });
  const reconciles = () =>
    metricValue(test.registry, 'controller_runtime_reconcile_total', { result: 'success' });

  it('a controller writes each status once, and writes nothing after a restart', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `w${i}`);
    for (const name of names) await create(name);
    const writesBefore = await writes();
    await run();
    for (const name of names) await readyFor(name, 1);
    // One for the finalizer, one for the status.
    expect((await writes()) - writesBefore).toBe(40);
    const versions = await Promise.all(
      names.map(async (name) => (await read(name)).metadata.resourceVersion),
    );
    await controller.stop();
    await reflector.stop();
    const before = await reconciles();
    test.registry.clear();
    await test.close();
    test = connect();
    await run();
    await waitFor(async () => (await reconciles()) === 20, { what: 'each object is reconciled once more' });
    expect(before).toBeLessThanOrEqual(60);
    expect(await writes()).toBe(0);
    const after = await Promise.all(names.map(async (name) => (await read(name)).metadata.resourceVersion));
    expect(after).toEqual(versions);
  });

  it('a condition names the new generation after a change of the spec, and keeps its transition time', async () => {
    await run();
    await create('followed');
    const first = await readyFor('followed', 1);
    await test.client.mergePatch(widgets, { namespace, name: 'followed' }, { spec: { size: 2 } });
    const second = await readyFor('followed', 2);
    const times = [first, second].map((widget) => widget.status?.conditions?.[0]?.lastTransitionTime);
    expect(times[0]).toBe(times[1]);
  });

  it('a controller cleans up before a deleted object is gone', async () => {
    await run();
    await create('deleted');
    await readyFor('deleted', 1);
    expect([...outside]).toEqual([`${namespace}/deleted`]);
    await test.client.delete(widgets, { namespace, name: 'deleted' });
    await waitFor(
      async () => (await test.client.find(widgets, { namespace, name: 'deleted' })) === undefined,
      {
        what: 'the object is gone',
      },
    );
    expect(outside.size).toBe(0);
  });
});
