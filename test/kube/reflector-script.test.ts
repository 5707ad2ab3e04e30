// Reflector against scripted answers that a real API server gives only after hours or under load.

import { afterEach, describe, expect, it } from 'vitest';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { Reflector, type ReflectorTuning } from '../../src/kube/reflector.ts';
import {
  type FakeKubeServer,
  type FakeStep,
  json,
  startFakeKubeServer,
  status,
  watch,
} from '../support/fake-kube-server.ts';
import { waitFor } from '../support/wait-for.ts';
import { type ConfigMap, configMaps } from './cluster.ts';

const quick = { backoff: { baseMs: 20, maxMs: 100 } };
const map = (name: string, resourceVersion: string) => ({
  metadata: { name, namespace: 'n', uid: `uid-${name}`, resourceVersion },
});
const list = (resourceVersion: string, items: object[] = [], token?: string): FakeStep =>
  json(200, { metadata: { resourceVersion, continue: token }, items });
const bookmark = (resourceVersion: string) => ({
  type: 'BOOKMARK',
  object: { metadata: { resourceVersion } },
});
const expiredEvent = {
  type: 'ERROR',
  object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' },
};
const open = watch([], 'stays');

describe('a reflector', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  async function reflect(
    script: FakeStep[],
    otherwise: FakeStep = open,
    tuning: ReflectorTuning = quick,
    of: Partial<ConstructorParameters<typeof Reflector<ConfigMap>>[0]> = {},
  ): Promise<{ server: FakeKubeServer; reflector: Reflector<ConfigMap> }> {
    const server = await startFakeKubeServer(script, otherwise);
    const transport = new KubeTransport({ loadConfig: () => server.config(), userAgent: 'kube-test/1' });
    const client = new KubeClient(transport);
    const reflector = new Reflector<ConfigMap>({ client, resource: configMaps, tuning, ...of });
    closing.push(
      () => server.close(),
      () => transport.close(),
      () => reflector.stop(),
    );
    reflector.start();
    return { server, reflector };
  }

  const isWatch = (request: FakeKubeServer['requests'][number]) => request.query.get('watch') === 'true';
  const requested = (server: FakeKubeServer, count: number) =>
    waitFor(() => server.requests.length >= count, { what: `${count} requests` });
  const steps = (server: FakeKubeServer) =>
    server.requests.map((request) =>
      isWatch(request) ? `watch ${request.query.get('resourceVersion')}` : 'list',
    );

  it('a reflector asks for bookmarks and resumes from the last one', async () => {
    const { server } = await reflect([list('10'), watch([bookmark('20'), bookmark('30')], 'ends')]);
    await requested(server, 3);
    expect(steps(server)).toEqual(['list', 'watch 10', 'watch 30']);
    expect(server.requests[1]?.query.get('allowWatchBookmarks')).toBe('true');
    const timeoutSeconds = Number(server.requests[1]?.query.get('timeoutSeconds'));
    expect(timeoutSeconds).toBeGreaterThanOrEqual(240);
    expect(timeoutSeconds).toBeLessThanOrEqual(300);
  });

  it('a reflector lists again after the HTTP status 410', async () => {
    const { server, reflector } = await reflect([
      list('10', [map('gone', '5'), map('kept', '6')]),
      status(410, 'Expired'),
      list('90', [map('kept', '6'), map('new', '80')]),
    ]);
    await requested(server, 4);
    expect(steps(server)).toEqual(['list', 'watch 10', 'list', 'watch 90']);
    expect([...reflector.store.keys()].sort()).toEqual(['n/kept', 'n/new']);
  });

  it('a reflector lists again after a 410 in the stream of a watch', async () => {
    const { server } = await reflect([
      list('10'),
      watch([{ type: 'ADDED', object: map('one', '11') }, expiredEvent], 'ends'),
      list('90', [map('one', '11')]),
    ]);
    await requested(server, 4);
    expect(steps(server)).toEqual(['list', 'watch 10', 'list', 'watch 90']);
  });

  it('a reflector lists without pages after a page token has expired, and removes what is gone since the first page', async () => {
    const { server, reflector } = await reflect([
      list('10', [map('a', '1'), map('gone', '1')], 'token'),
      status(410, 'Expired'),
      list('20', [map('a', '1'), map('b', '2')]),
    ]);
    await reflector.whenSynced();
    expect(server.requests[1]?.query.get('continue')).toBe('token');
    expect(server.requests[2]?.query.get('limit')).toBeNull();
    expect([...reflector.store.keys()]).toEqual(['n/a', 'n/b']);
  });

  it('a reflector stops at the moment of its first complete list', async () => {
    const { reflector } = await reflect([list('10')]);
    await reflector.whenSynced();
    await reflector.stop();
    expect(reflector.hasSynced).toBe(true);
  });

  it('a list that breaks off in the middle removes nothing from the store', async () => {
    const { server, reflector } = await reflect([
      list('10', [map('a', '1'), map('b', '2')]),
      status(410, 'Expired'),
      list('20', [map('a', '1')], 'token'),
      status(500, 'InternalError'),
      status(500, 'InternalError'),
    ]);
    await requested(server, 5);
    expect([...reflector.store.keys()]).toEqual(['n/a', 'n/b']);
  });

  it('a reflector waits as long as an overloaded server asks', async () => {
    const { server, reflector } = await reflect([
      status(429, 'TooManyRequests', { 'retry-after': '1' }),
      list('10'),
    ]);
    const startedAtMs = performance.now();
    await reflector.whenSynced();
    expect(performance.now() - startedAtMs).toBeGreaterThan(900);
    expect(server.requests.length).toBeGreaterThanOrEqual(2);
  });

  it('a reflector pauses between watches that end at once', async () => {
    const { server } = await reflect([list('10')], watch([], 'ends'), {
      backoff: { baseMs: 100, maxMs: 400 },
    });
    const startedAtMs = performance.now();
    await requested(server, 6);
    // Four pauses before the fifth watch: 100 + 200 + 400 + 400, less a fifth.
    expect(performance.now() - startedAtMs).toBeGreaterThan(850);
    expect(steps(server).filter((step) => step === 'list')).toHaveLength(1);
  });

  it.each([
    { code: 500, reason: 'InternalError', isSign: true },
    { code: 404, reason: 'NotFound', isSign: true },
    { code: 401, reason: 'Unauthorized', isSign: false },
  ])('an error $code of the server is a sign of its life: $isSign', async ({ code, reason, isSign }) => {
    const askedAtMs: number[] = [];
    const { reflector } = await reflect([], (request, response) => {
      askedAtMs.push(performance.now());
      status(code, reason)(request, response);
    });
    const startedAtMs = performance.now();
    await waitFor(() => askedAtMs.length >= 7, { what: 'some tries' });
    const { silentMs } = reflector;
    const sinceMs = (atMs = 0) => performance.now() - atMs;
    // The answer to a try comes before the next one.
    if (isSign) expect(silentMs).toBeLessThan(sinceMs(askedAtMs[3]));
    else expect(silentMs).toBeGreaterThanOrEqual((askedAtMs[5] ?? 0) - startedAtMs);
    expect(reflector.failure).toBeDefined();
  });

  it('a reflector waits for a late list until it is stopped', async () => {
    const { server, reflector } = await reflect([() => undefined]);
    await requested(server, 1);
    expect(reflector.hasSynced).toBe(false);
    await expect(reflector.whenSynced(AbortSignal.timeout(20))).rejects.toThrow();
    await reflector.stop();
    expect(server.requests).toHaveLength(1);
  });

  it('a reflector of a namespace says that the server refuses it, keeps its objects, and lists when it may again', async () => {
    const heard: (number | undefined)[] = [];
    const missing = json(404, { code: 404, reason: 'NotFound', details: { kind: 'namespaces', name: 'n' } });
    const { server, reflector } = await reflect(
      [list('10', [map('kept', '5')]), status(403, 'Forbidden'), missing, list('20', [map('kept', '5')])],
      open,
      quick,
      { namespace: 'n', onRefused: (refusal) => heard.push(refusal?.status) },
    );
    await requested(server, 5);
    expect(steps(server)).toEqual(['list', 'watch 10', 'list', 'list', 'watch 20']);
    expect(heard).toEqual([403, 404, undefined]);
    expect([...reflector.store.keys()]).toEqual(['n/kept']);
  });

  it('neither a resource that the server does not serve nor a 403 for all namespaces is a refusal of a namespace', async () => {
    const heard: unknown[] = [];
    const onRefused = (refusal: unknown) => heard.push(refusal);
    const notServed = await reflect([status(404, 'NotFound'), json(404, {})], open, quick, {
      namespace: 'n',
      onRefused,
    });
    const everywhere = await reflect([status(403, 'Forbidden')], open, quick, { onRefused });
    await requested(notServed.server, 3);
    await requested(everywhere.server, 2);
    expect(heard).toEqual([]);
  });

  it('a store holds 10,000 objects in bounded memory, without their managed fields', async () => {
    const { setFlagsFromString } = await import('node:v8');
    const { runInNewContext } = await import('node:vm');
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as () => void;
    const managedFields = [{ manager: 'someone', fieldsV1: { f: 'x'.repeat(5000) } }];
    const page: FakeStep = (request, response) => {
      const start = Number(request.query.get('continue') ?? '0');
      const limit = Number(request.query.get('limit'));
      const items = Array.from({ length: limit }, (_, i) => {
        const object = map(`object-${start + i}`, '1');
        return { metadata: { ...object.metadata, managedFields }, data: { a: 'y'.repeat(100) } };
      });
      const next = start + limit < 10_000 ? String(start + limit) : '';
      list('10', items, next)(request, response);
    };
    collectGarbage();
    const beforeBytes = process.memoryUsage().heapUsed;
    const { reflector } = await reflect(Array(20).fill(page));
    await reflector.whenSynced();
    collectGarbage();
    const grownMiB = (process.memoryUsage().heapUsed - beforeBytes) / 2 ** 20;
    expect(reflector.store.size).toBe(10_000);
    // The managed fields alone would take 50 MiB.
    expect(grownMiB).toBeLessThan(25);
  });
});
