// The connections of the periodic jobs: one that takes long delays the others, and fails none of them.
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Connection } from '../../src/store/postgres/pool.ts';
import { type JobPools, openJobPools } from '../../src/sweeper/upkeep/job-pools.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let fixture: ProjectFixture;
let pools: JobPools;
const errors: Error[] = [];
beforeEach(async () => {
  fixture = await openProjectFixture();
  pools = openJobPools(fixture.databaseUrl, (error) => errors.push(error));
});
afterEach(async () => {
  await pools?.end();
  await fixture?.close();
});

it('three slow jobs have a connection each at the same time', async () => {
  const held: Connection[] = [];
  try {
    for (let job = 0; job < 3; job += 1) held.push(await pools.slowPool.connect());
    expect(pools.slowPool.waitingCount).toBe(0);
  } finally {
    for (const connection of held) connection.release();
  }
});

it('a job waits for the statements of others, also when they take longer than a call would wait', async () => {
  const others = Array.from({ length: 4 }, () => pools.pool.query('select pg_sleep(4)'));
  await expect(pools.pool.query('select 1 as one')).resolves.toMatchObject({ rows: [{ one: 1 }] });
  await Promise.all(others);
  expect(errors).toEqual([]);
});

it('a connection that hangs while it is opened fails soon, because a lease is renewed through the next one', async () => {
  const proxy = await TcpProxy.start(fixture.databaseUrl);
  const behind = openJobPools(proxy.url, (error) => errors.push(error));
  try {
    proxy.blackHole();
    await expect(behind.pool.query('select 1')).rejects.toThrow('timeout');
    proxy.forward();
    await expect(behind.pool.query('select 1 as one')).resolves.toMatchObject({ rows: [{ one: 1 }] });
  } finally {
    await behind.end();
    await proxy.close();
  }
  // A wait for the connections of others would have been longer than this test may take.
}, 40_000);
