// EventRecorder on a real API server.

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventRecorder, type EventTuning } from '../../src/kube/event-recorder.ts';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  type ConfigMap,
  configMaps,
  connectThroughProxy,
  createNamespace,
  hasCluster,
  metricValue,
} from './cluster.ts';

interface CoreEvent extends KubeObject {
  reason: string;
  message: string;
  type: string;
  involvedObject: { name: string; uid: string };
  count: number;
  firstTimestamp: string;
  lastTimestamp: string;
}
const events: KubeResource<CoreEvent> = {
  apiVersion: 'v1',
  kind: 'Event',
  plural: 'events',
  namespaced: true,
};

/** Longer than any machine takes to write the waiting Events. */
const patienceMs = 180_000;

describe.skipIf(!hasCluster)('an event recorder', () => {
  let test: Awaited<ReturnType<typeof connectThroughProxy>>;
  let about: ConfigMap;
  let namespace: string;
  beforeEach(async () => {
    // No test waits for the time limit of a call.
    test = await connectThroughProxy({ requestTimeoutMs: 600_000 });
    namespace = await createNamespace(test.client);
    about = await test.client.create(configMaps, { metadata: { name: 'about', namespace } });
  });
  afterEach(() => test.close());

  const record = (tuning: EventTuning = {}) =>
    new EventRecorder({
      client: test.client,
      controller: 'kube-test',
      instance: 'pod-1',
      tuning,
      metrics: test.metrics,
    });
  const list = async () => (await test.client.list(events, { namespace })).items;
  const made = { type: 'Normal', reason: 'Created', note: 'It is there.' } as const;
  const counted = (outcome: string) => metricValue(test.registry, 'kube_events_total', { outcome });

  it('an event recorder writes an Event that kubectl shows', async () => {
    const recorder = record();
    recorder.record(about, made);
    await recorder.stop(patienceMs);
    const [event] = await list();
    expect(event).toMatchObject({
      reason: 'Created',
      message: 'It is there.',
      type: 'Normal',
      involvedObject: { name: 'about', uid: about.metadata.uid },
      source: { component: 'kube-test' },
    });
  });

  it('an Event is written about an object whose long name is cut at a dot', async () => {
    const name = `${'a'.repeat(229)}.${'b'.repeat(20)}`;
    const long = await test.client.create(configMaps, { metadata: { name, namespace } });
    const recorder = record();
    recorder.record(long, made);
    await recorder.stop(patienceMs);
    expect(await list()).toMatchObject([{ involvedObject: { name } }]);
  });

  it('repeats of an Event become a count on one Event', async () => {
    const recorder = record({ repeatMs: 100 });
    recorder.record(about, made);
    await waitFor(async () => (await list()).length === 1, { what: 'the first Event' });
    for (let i = 0; i < 99; i += 1) recorder.record(about, made);
    await waitFor(async () => (await list())[0]?.count === 100, { what: 'the count' });
    recorder.record(about, made);
    await recorder.stop(patienceMs);
    const all = await list();
    expect(all).toHaveLength(1);
    expect(all[0]?.count).toBe(101);
    expect(await counted('repeated')).toBeLessThanOrEqual(3);
  });

  it('an Event has the time of its last repeat, by which kubectl sorts', async () => {
    const recorder = record({ repeatMs: 100 });
    recorder.record(about, made);
    const [first] = await waitFor(async () => (await list()).length === 1 && list(), { what: 'the Event' });
    expect(first?.lastTimestamp).toBe(first?.firstTimestamp);
    const isLater = () => Date.now() > Date.parse(first?.lastTimestamp ?? '') + 1000;
    await waitFor(isLater, { what: 'the next second' });
    recorder.record(about, made);
    await recorder.stop(patienceMs);
    const [last] = await list();
    expect(last?.firstTimestamp).toBe(first?.firstTimestamp);
    expect(Date.parse(last?.lastTimestamp ?? '')).toBeGreaterThan(Date.parse(first?.lastTimestamp ?? ''));
    expect(last?.count).toBe(2);
  });

  it('the count of an Event that was repeated before it was written is right', async () => {
    const recorder = record();
    for (let i = 0; i < 3; i += 1) recorder.record(about, made);
    await recorder.stop(patienceMs);
    expect(await list()).toMatchObject([{ count: 3 }]);
  });

  it('an Event whose answer was lost is not created twice and counts its repeats', async () => {
    const recorder = record({ repeatMs: 50 });
    test.proxy.resetAfter(100);
    recorder.record(about, made);
    await waitFor(async () => (await counted('created')) === 1, { what: 'the Event counts as created' });
    recorder.record(about, made);
    await recorder.stop(patienceMs);
    expect(await counted('dropped')).toBe(0);
    expect(await list()).toMatchObject([{ count: 2 }]);
  });

  it('an event recorder limits the Events about one object and cuts long notes', async () => {
    const recorder = record();
    for (let i = 0; i < 100; i += 1) recorder.record(about, { ...made, note: `${i} ${'é'.repeat(2000)}` });
    await recorder.stop(patienceMs);
    const all = await list();
    expect(all.length).toBeGreaterThanOrEqual(25);
    expect(all.length).toBeLessThan(30);
    expect(Buffer.byteLength(all[0]?.message ?? '')).toBeLessThanOrEqual(1024);
    expect(await counted('dropped')).toBe(100 - all.length);
  });

  it('a namespace with very many Events displaces none of another', async () => {
    const other = await createNamespace(test.client);
    const theirs = await test.client.create(configMaps, { metadata: { name: 'theirs', namespace: other } });
    const recorder = record({ capacity: 40 });
    for (let i = 0; i < 200; i += 1)
      recorder.record({ ...about, metadata: { ...about.metadata, uid: `uid-${i}` } }, made);
    recorder.record(theirs, made);
    await recorder.stop(patienceMs);
    expect((await test.client.list(events, { namespace: other })).items).toHaveLength(1);
    expect(await counted('dropped')).toBeGreaterThan(0);
  });

  it('Events of a namespace with very many end no series of another: its repeats stay a count', async () => {
    const other = await createNamespace(test.client);
    const theirs = await test.client.create(configMaps, { metadata: { name: 'theirs', namespace: other } });
    const recorder = record({ capacity: 8, repeatMs: 0 });
    recorder.record(theirs, made);
    for (let i = 1; i <= 20; i += 1) {
      recorder.record({ ...about, metadata: { ...about.metadata, uid: `uid-${i}` } }, made);
      await waitFor(async () => (await list()).length === i, { what: 'the Event is written' });
    }
    recorder.record(theirs, made);
    await recorder.stop(patienceMs);
    const { items } = await test.client.list(events, { namespace: other });
    expect(items.map(({ count }) => count)).toEqual([2]);
  });

  it('a repeat after the Event was deleted creates a new Event', async () => {
    const recorder = record({ repeatMs: 50 });
    recorder.record(about, made);
    const [first] = await waitFor(async () => (await list()).length === 1 && list(), { what: 'the Event' });
    await test.client.delete(events, { namespace, name: first?.metadata.name ?? '' });
    recorder.record(about, made);
    const [second] = await waitFor(async () => (await list()).length === 1 && list(), { what: 'another' });
    await recorder.stop(patienceMs);
    expect(second?.metadata.name).not.toBe(first?.metadata.name);
  });

  it('an event recorder writes after the API server was away, and stop does not wait for an answer that never comes', async () => {
    const recorder = record();
    await test.proxy.refuse();
    recorder.record(about, made);
    await test.proxy.accept();
    await waitFor(async () => (await list()).length === 1, { what: 'the Event' });
    test.proxy.blackHole();
    recorder.record(about, { ...made, note: 'Never written.' });
    await recorder.stop(300);
    test.proxy.forward();
    expect(await counted('dropped')).toBe(1);
  });
});
