// Leader election against scripted answers that a rightly set up cluster does not give.

import { afterEach, describe, expect, it } from 'vitest';
import { KubeClient } from '../../src/kube/kube-client.ts';
import { silentLog } from '../../src/kube/kube-log.ts';
import { KubeTransport } from '../../src/kube/kube-transport.ts';
import { LeaseElector } from '../../src/kube/lease-elector.ts';
import { type FakeStep, startFakeKubeServer, status } from '../support/fake-kube-server.ts';
import { waitFor } from '../support/wait-for.ts';

describe('an elector', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('says once that it may not take the lease, and goes on trying', async () => {
    const answer: FakeStep = (request, response) =>
      (request.method === 'GET' ? status(404, 'NotFound') : status(403, 'Forbidden'))(request, response);
    const server = await startFakeKubeServer([], answer);
    const transport = new KubeTransport({ loadConfig: () => server.config(), userAgent: 'kube-test/1' });
    const said: string[] = [];
    const elector = new LeaseElector({
      client: new KubeClient(transport),
      lease: { namespace: 'n', name: 'leader' },
      identity: 'one',
      onElected: () => undefined,
      onLost: () => undefined,
      tuning: { leaseMs: 60_000, renewDeadlineMs: 50_000, retryMs: 10 },
      log: { ...silentLog, warn: (_fields, message) => void said.push(message) },
    });
    closing.push(
      () => server.close(),
      () => transport.close(),
      () => elector.stop(),
    );
    elector.start();
    // Two calls a try.
    await waitFor(() => server.requests.length >= 20, { what: 'ten tries' });
    expect(said).toEqual(['Could not look at or take the lease.']);
    expect(elector.isLeader).toBe(false);
  });
});
