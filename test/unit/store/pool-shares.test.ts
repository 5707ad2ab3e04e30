// The lines in which statements wait for a connection.
import { expect, it } from 'vitest';
import type { Pool } from '../../../src/store/postgres/pool.ts';
import { PoolShares } from '../../../src/store/postgres/pool-shares.ts';

const MOST_WAITING = 1_000;
const CONNECTIONS = 4;

it('a holder whose line is full is refused at once, and no other one is', async () => {
  const { promise: unlocked, resolve: unlock } = Promise.withResolvers<void>();
  const pool = {
    options: { max: CONNECTIONS },
    query: async (text: string) => (text === 'locked' ? await unlocked : undefined),
  } as unknown as Pool;
  const shares = new PoolShares();
  const crowd = shares.of(pool, 'crowd');
  const begun = Array.from({ length: MOST_WAITING + CONNECTIONS / 2 }, () => crowd.query('locked'));
  expect(shares.waiting).toBe(MOST_WAITING);

  await expect(crowd.query('one more')).rejects.toMatchObject({ code: 'temporarily_unavailable' });
  await shares.of(pool, 'other').query('free');
  expect(shares.waiting).toBe(MOST_WAITING);

  unlock();
  await Promise.all(begun);
  expect(shares.waiting).toBe(0);
  await crowd.query('free');
});
