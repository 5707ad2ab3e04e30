// LeaseElector against scripted answers that a cluster with the right permissions does not give.

import { afterEach, describe, expect, it } from 'vitest';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { silentLog } from '../../src/kube/kube-log.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { LeaseElector, type LeaseElectorOptions } from '../../src/kube/lease-elector.ts';
import {
  type FakeKubeServer,
  type FakeStep,
  json,
  startFakeKubeServer,
  status,
} from '../support/fake-kube-server.ts';
import { waitFor } from '../support/wait-for.ts';

describe('an elector', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  function electorAt(server: FakeKubeServer, options: Partial<LeaseElectorOptions>): LeaseElector {
    const transport = new KubeTransport({ loadConfig: () => server.config(), userAgent: 'kube-test/1' });
    const elector = new LeaseElector({
      client: new KubeClient(transport),
      lease: { namespace: 'n', name: 'leader' },
      identity: 'one',
      onElected: () => undefined,
      onLost: () => undefined,
      tuning: { leaseMs: 400_000, renewDeadlineMs: 300_000, retryMs: 10 },
      ...options,
    });
    closing.push(
      () => server.close(),
      () => transport.close(),
      () => elector.stop(),
    );
    elector.start();
    return elector;
  }

  it('stop releases a lease whose creation was stored but never answered', async () => {
    const [lease, methods] = [{ namespace: 'n', name: 'leader' }, [] as string[]];
    const held = { metadata: { ...lease, resourceVersion: '1' }, spec: { holderIdentity: 'one' } };
    const script = [status(404, 'NotFound'), () => undefined];
    const server = await startFakeKubeServer(script, (request, response) => {
      methods.push(request.method);
      json(200, held)(request, response);
    });
    const elector = electorAt(server, {});
    await waitFor(() => server.requests.length === 2, { what: 'the elector creates the lease' });
    await elector.stop();
    expect(methods).toEqual(['GET', 'PUT']);
  });

  it('an elector takes a lease that is not renewed when it ends, however late its next poll would be', async () => {
    const spec = { holderIdentity: 'gone', leaseDurationSeconds: 1 };
    const held = { metadata: { namespace: 'n', name: 'leader', resourceVersion: '1' }, spec };
    const server = await startFakeKubeServer([], json(200, held));
    const tuning = { leaseMs: 900_000, renewDeadlineMs: 800_000, retryMs: 700_000 };
    const elector = electorAt(server, { tuning });
    await waitFor(() => elector.isLeader, { what: 'the elector leads' });
    // It was held at first.
    expect(server.requests.slice(0, 2).map(({ method }) => method)).toEqual(['GET', 'GET']);
  });

  it('an elector without permission warns once and tries on', async () => {
    const answer: FakeStep = (request, response) =>
      (request.method === 'GET' ? status(404, 'NotFound') : status(403, 'Forbidden'))(request, response);
    const server = await startFakeKubeServer([], answer);
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (_fields: object, message: string) => void warnings.push(message) };
    const elector = electorAt(server, { log });
    // Each try makes two calls.
    await waitFor(() => server.requests.length >= 20, { what: 'ten tries' });
    expect(warnings).toEqual(['Could not read or take the lease; the elector will try again.']);
    expect(elector.isLeader).toBe(false);
  });
});
