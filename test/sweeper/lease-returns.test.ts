// Leases that are given back before their deliveries are sent: also where the database is away for a moment, and only once.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { LEASE_MS } from '../../src/store/deliveries/delivery-queue.ts';
import { releaseLeases } from '../../src/store/deliveries/lease-release.ts';
import { LeaseReturns } from '../../src/sweeper/deliveries/lease-returns.ts';
import type { SeedEndpoint } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';
import { type DeliveryFixture, openDeliveryFixture } from './delivery-fixture.ts';

const OWNER = randomUUID();

let fixture: DeliveryFixture;
beforeAll(async () => {
  fixture = await openDeliveryFixture();
});
afterEach(() => fixture.endTest());
afterAll(() => fixture?.close());

const claim = async (endpoint: SeedEndpoint) => (await fixture.claim(endpoint, { owner: OWNER })).deliveries;

/** The next releases meet a connection that ends. Returns how many have been tried. */
function failReleases(count: number): () => number {
  const { pool } = fixture;
  const query = pool.query.bind(pool);
  let tried = 0;
  vi.spyOn(pool, 'query').mockImplementation(async (...given) => {
    const { name } = given[0] as { name?: string };
    if (name !== 'release-leases') return await query(...given);
    tried += 1;
    return await query(
      ...(tried <= count ? (['select pg_terminate_backend(pg_backend_pid())'] as never) : given),
    );
  });
  return () => tried;
}

function startReturns(): LeaseReturns {
  const returns = new LeaseReturns({ ...makeParts(), pool: fixture.pool, owner: OWNER });
  fixture.atEnd(() => returns.stop());
  return returns;
}

describe('leases that are given back', () => {
  it('a lease that could not be given back is given back when the database answers again', async () => {
    const { endpoint } = await fixture.receive();
    const row = await fixture.enqueueOne(endpoint);
    const tried = failReleases(2);
    startReturns().add(await claim(endpoint));
    const isFree = async () => (await fixture.rowOf(row)).lease_owner === null;
    await waitFor(isFree, { what: 'the lease is given back' });
    expect(tried()).toBe(3);
    await sleep(LEASE_MS / 100);
    expect(tried()).toBe(3);
  });

  it('what is left when the dispatcher stops is tried once more', async () => {
    const { endpoint } = await fixture.receive();
    const row = await fixture.enqueueOne(endpoint);
    const tried = failReleases(1);
    const returns = startReturns();
    returns.add(await claim(endpoint));
    await waitFor(() => tried() === 1, { what: 'it was tried', intervalMs: 1 });
    await returns.stop();
    expect((await fixture.rowOf(row)).lease_owner).toBeNull();
  });

  it('a lease that is given back late leaves a newer one of the same dispatcher alone', async () => {
    const { endpoint } = await fixture.receive();
    const row = await fixture.enqueueOne(endpoint);
    const older = await claim(endpoint);
    await fixture.makeDue(row);
    const newer = await claim(endpoint);
    await releaseLeases(fixture.pool, OWNER, older);
    expect((await fixture.rowOf(row)).lease_owner).toBe(OWNER);
    await releaseLeases(fixture.pool, OWNER, newer);
    expect((await fixture.rowOf(row)).lease_owner).toBeNull();
  });
});
