// LeaseElector on a real API server, with the operator's defaults where a leader is killed.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KubeObject, KubeResource } from '../../src/kube/kube-object.ts';
import { createLeaseIdentity, LeaseElector, type LeaseTuning } from '../../src/kube/lease-elector.ts';
import { waitFor } from '../support/wait-for.ts';
import {
  adminKubeconfig,
  connect,
  connectThroughProxy,
  createNamespace,
  hasCluster,
  metricValue,
  type TestClient,
} from './cluster.ts';

interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    renewTime?: string;
    leaseTransitions?: number;
  };
}
const leases: KubeResource<Lease> = {
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  plural: 'leases',
  namespaced: true,
};
const holderScript = fileURLToPath(new URL('hold-lease.ts', import.meta.url));
/** A lease that is soon lost, for tests of the loss. */
const quick: LeaseTuning = { leaseMs: 3000, renewDeadlineMs: 2000, retryMs: 400 };
/** A lease that survives a machine which stands still for minutes. */
const patient: LeaseTuning = { leaseMs: 400_000, renewDeadlineMs: 300_000, retryMs: 300 };

describe.skipIf(!hasCluster)('leader election', () => {
  let test: TestClient;
  let lease: { namespace: string; name: string };
  let electors: LeaseElector[];
  let children: ChildProcess[];
  /** What happened, in order: `elected a`, `lost a`. */
  let log: string[];

  beforeEach(async () => {
    test = connect();
    lease = { namespace: await createNamespace(test.client), name: 'leader' };
    electors = [];
    children = [];
    log = [];
  });
  afterEach(async () => {
    for (const elector of electors) await elector.stop();
    for (const child of children) child.kill('SIGKILL');
    await test.close();
  });

  function elect(name: string, tuning?: LeaseTuning, client = test.client): LeaseElector {
    const elector = new LeaseElector({
      client,
      lease,
      identity: `${name}_${createLeaseIdentity()}`,
      onElected: () => log.push(`elected ${name}`),
      onLost: () => log.push(`lost ${name}`),
      tuning,
      metrics: test.metrics,
    });
    electors.push(elector);
    elector.start();
    return elector;
  }

  async function spawnHolder(): Promise<ChildProcess> {
    const args = [holderScript, adminKubeconfig, lease.namespace, lease.name];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    if (child.stdout === null) throw new Error('The holder has no output.');
    const [words] = await once(child.stdout, 'data');
    expect(String(words)).toContain('elected');
    return child;
  }

  const leads = (elector: LeaseElector) =>
    waitFor(() => elector.isLeader, { what: 'the elector leads', intervalMs: 10 });
  const seesHolder = (elector: LeaseElector) =>
    waitFor(() => elector.holder !== undefined, { what: 'the standby sees the holder' });

  it('one of three electors leads and stays the leader', async () => {
    const three = [elect('a', patient), elect('b', patient), elect('c', patient)];
    await waitFor(() => three.some((elector) => elector.isLeader), { what: 'a leader' });
    const first = await test.client.get(leases, lease);
    const renewed = await waitFor(
      async () => {
        const latest = await test.client.get(leases, lease);
        return latest.spec?.renewTime !== first.spec?.renewTime && latest;
      },
      { what: 'a renewal' },
    );
    expect(renewed.spec?.holderIdentity).toBe(first.spec?.holderIdentity);
    expect(renewed.spec?.renewTime).toMatch(/\.\d{6}Z$/);
    expect(three.filter((elector) => elector.isLeader)).toHaveLength(1);
    expect(log).toHaveLength(1);
    expect(await metricValue(test.registry, 'leader_election_master_status', { name: 'leader' })).toBe(1);
  });

  // That it takes the lease when it ends, and not at a later poll, is in lease-elector-script.test.ts.
  it('a standby leads when the lease of a killed leader has ended, soon enough for the 15 seconds that are promised', async () => {
    const old = await spawnHolder();
    const standby = elect('standby');
    await seesHolder(standby);
    const held = await test.client.get(leases, lease);
    // A standby sees a renewal half a second late on average, at most 1.2 s.
    expect(held.spec?.leaseDurationSeconds).toBeLessThan(14);
    old.kill('SIGKILL');
    await leads(standby);
    expect(log).toEqual(['elected standby']);
    const { spec } = await test.client.get(leases, lease);
    expect(spec?.leaseTransitions).toBe(1);
  });

  it('a standby leads at its next poll after the leader has ended in order', async () => {
    const old = await spawnHolder();
    const exited = once(old, 'exit');
    const standby = elect('standby');
    await seesHolder(standby);
    old.kill('SIGTERM');
    expect(await exited).toEqual([0, null]);
    const polls = () => metricValue(test.registry, 'rest_client_requests_total', { method: 'GET' });
    const before = await polls();
    expect(before).toBeGreaterThan(0);
    await leads(standby);
    // The answer to a poll under way may be older than the release. Until the lease expired there would be a dozen.
    expect((await polls()) - before).toBeLessThanOrEqual(2);
  });

  it('a leader that cannot renew gives up before a standby leads', async () => {
    const cut = await connectThroughProxy();
    const old = elect('old', quick, cut.client);
    await leads(old);
    const standby = elect('standby', quick);
    await seesHolder(standby);
    cut.proxy.blackHole();
    const overlap = await waitFor(
      () => {
        if (old.isLeader && standby.isLeader) return 'both lead';
        return standby.isLeader && 'one leads';
      },
      { what: 'a new leader', intervalMs: 5 },
    );
    expect(overlap).toBe('one leads');
    // If the machine stood still, so short a lease may have been lost and won before.
    expect(log.at(-1)).toBe('elected standby');
    const pairs = log.flatMap((words, at) => (at % 2 === 0 ? [[words, log[at + 1]]] : []));
    for (const [elected, lost] of pairs.slice(0, -1)) expect(lost).toBe(elected?.replace('elected', 'lost'));
    await cut.close();
  });

  it('a leader keeps the lease while the API server is away for a short time', async () => {
    const cut = await connectThroughProxy();
    const elector = elect('only', patient, cut.client);
    await leads(elector);
    await cut.proxy.refuse();
    const { spec } = await test.client.get(leases, lease);
    await cut.proxy.accept();
    await waitFor(async () => (await test.client.get(leases, lease)).spec?.renewTime !== spec?.renewTime, {
      what: 'a renewal after the absence',
    });
    expect(log).toEqual(['elected only']);
    await elector.stop();
    await cut.close();
  });

  it('a leader creates a deleted lease again, and stops at once when another process takes the lease', async () => {
    const elector = elect('robbed', patient);
    await leads(elector);
    await test.client.delete(leases, lease);
    await waitFor(() => test.client.find(leases, lease), { what: 'the lease is there again' });
    expect(log).toEqual(['elected robbed']);
    await test.client.mergePatch(leases, lease, { spec: { holderIdentity: 'robber' } });
    // That is minutes before the renewal deadline.
    await waitFor(() => log.length === 2, { what: 'onLost is called' });
    expect(log).toEqual(['elected robbed', 'lost robbed']);
    expect(elector.isLeader).toBe(false);
  });

  it('an elector refuses times that would let two processes lead', () => {
    expect(() => elect('wrong', { leaseMs: 10_000, renewDeadlineMs: 10_000 })).toThrow(RangeError);
  });
});
