// Credentials, time limits, connections and errors of KubeTransport.

import { afterEach, describe, expect, it } from 'vitest';
import { KubeError } from '../../src/kube/kube-error.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import {
  type FakeKubeServer,
  type FakeStep,
  json,
  startFakeKubeServer,
  status,
} from '../support/fake-kube-server.ts';
import { configMaps, connectThroughProxy, createNamespace, hasCluster } from './cluster.ts';

const caught = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (e: unknown) => e,
  );
const silence: FakeStep = () => undefined;

describe('the transport', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  async function serve(script: FakeStep[], otherwise: FakeStep): Promise<FakeKubeServer> {
    const server = await startFakeKubeServer(script, otherwise);
    closing.push(() => server.close());
    return server;
  }

  function transportTo(server: FakeKubeServer, tokens = ['token'], requestTimeoutMs = 60_000): KubeTransport {
    const loadConfig = () => server.config(tokens.shift());
    const transport = new KubeTransport({ loadConfig, userAgent: 'kube-test/1', requestTimeoutMs });
    closing.unshift(() => transport.close());
    return transport;
  }

  it('after a 401 the transport loads the token again and repeats the call once, even a POST', async () => {
    const server = await serve(
      [status(401, 'Unauthorized'), json(201, { ok: true })],
      status(401, 'Unauthorized'),
    );
    const transport = transportTo(server, ['old', 'new', 'newer']);
    const post = { method: 'POST', path: '/api/v1/things', body: { a: 1 } } as const;
    expect(await transport.request(post)).toEqual({ ok: true });
    expect(server.requests.map((request) => request.headers.authorization)).toEqual([
      'Bearer old',
      'Bearer new',
    ]);
    expect(await caught(transport.request(post))).toMatchObject({ status: 401, reason: 'Unauthorized' });
    expect(server.requests).toHaveLength(4);
  });

  it('concurrent calls load the configuration once', async () => {
    const server = await serve([], json(200, {}));
    let loads = 0;
    const loadConfig = () => {
      loads += 1;
      return server.config('token');
    };
    const transport = new KubeTransport({ loadConfig, userAgent: 'kube-test/1' });
    closing.unshift(() => transport.close());
    await Promise.all(Array.from({ length: 10 }, () => transport.request({ method: 'GET', path: '/api' })));
    expect(loads).toBe(1);
  });

  it('a refused call throws a KubeError with the status and its Retry-After', async () => {
    const server = await serve([], status(429, 'TooManyRequests', { 'retry-after': '7' }));
    const error = await caught(transportTo(server).request({ method: 'GET', path: '/api' }));
    expect(error).toBeInstanceOf(KubeError);
    expect(error).toMatchObject({ status: 429, reason: 'TooManyRequests', retryAfterMs: 7000 });
  });

  it('a call times out if its answer does not come or does not end', async () => {
    const half: FakeStep = (_request, response) => {
      response.writeHead(200);
      response.write('{"half":');
    };
    const server = await serve([silence, half], silence);
    const transport = transportTo(server, ['token'], 200);
    for (let i = 0; i < 2; i += 1) {
      const error = await caught(transport.request({ method: 'GET', path: '/api' }));
      expect(error).toMatchObject({ status: 0, reason: 'Timeout' });
    }
  });

  it("an aborted call throws the reason of the caller's signal", async () => {
    const server = await serve([], silence);
    const transport = transportTo(server);
    const reason = new Error('enough');
    const call = caught(transport.request({ method: 'GET', path: '/api', signal: AbortSignal.timeout(50) }));
    expect(await call).toMatchObject({ name: 'TimeoutError' });
    const aborted = transport.request({ method: 'GET', path: '/api', signal: AbortSignal.abort(reason) });
    expect(await caught(aborted)).toBe(reason);
  });

  it('an unreachable server gives an error that names the call', async () => {
    const server = await serve([], silence);
    await server.close();
    closing.length = 0;
    const error = await caught(transportTo(server).request({ method: 'GET', path: '/api/v1/nodes' }));
    expect(error).toMatchObject({ status: 0, reason: 'Unreachable' });
    expect(String(error)).toContain('GET /api/v1/nodes');
  });

  it.skipIf(!hasCluster)('the transport reuses connections, and works on after they were reset', async () => {
    const test = await connectThroughProxy();
    closing.push(() => test.close());
    const namespace = await createNamespace(test.client);
    for (let i = 0; i < 20; i += 1) await test.client.list(configMaps, { namespace });
    const before = test.proxy.accepted;
    // Far fewer than one per call; a connection that was idle for seconds may have been closed.
    expect(before).toBeLessThan(10);
    test.proxy.resetAfter(100);
    const torn = await caught(test.client.list(configMaps, { namespace }));
    expect(torn).toMatchObject({ status: 0, reason: 'Unreachable' });
    await test.client.list(configMaps, { namespace });
    expect(test.proxy.accepted).toBeLessThanOrEqual(before + 2);
  });
});
