// Lookbacks of different length: a longer one finds what a short one cannot see, and holds up no short one when it fails.
import type { QueryConfig } from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, seedMonitor } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;

beforeEach(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => fixture?.close());

it('a deadline that becomes visible ten seconds late opens its incident', async () => {
  const { pool, project } = fixture;
  await moveClock(pool);
  const sweep = makeSweep(pool);
  await drain(sweep);
  const deadlineMs = (await readNow(pool)) - 10_000;
  await seedMonitor(pool, project, dueAt(deadlineMs));
  const isOpen = async () => {
    await moveClock(pool);
    await drain(sweep);
    return (await pool.query('select from incidents')).rowCount === 1;
  };
  await waitFor(isOpen, { what: 'the incident is open' });
  expect((await pool.query('select state from incidents')).rows).toEqual([{ state: 'open' }]);
});

it('new deadlines are found while the first lookback takes too long, as under an old snapshot', async () => {
  const { pool, project } = fixture;
  await moveClock(pool);
  const sweep = makeSweep(withSlowBeginning(pool));
  await expect(sweep.run()).rejects.toThrow('statement timeout');
  const deadlineMs = await readNow(pool);
  await seedMonitor(pool, project, dueAt(deadlineMs));
  await moveClock(pool);
  await drain(sweep);
  expect((await pool.query('select state from incidents')).rows).toEqual([{ state: 'open' }]);
});

/** A pool that acts as if the beginning of the index held millions of dead entries. */
function withSlowBeginning(pool: Pool): Pool {
  return new Proxy(pool, {
    get(target, property) {
      if (property !== 'query') {
        const value: unknown = Reflect.get(target, property);
        return typeof value === 'function' ? value.bind(target) : value;
      }
      return async (statement: QueryConfig) => {
        if (statement.name?.startsWith('find-due') && statement.values?.[1] === -1)
          throw new Error('canceling statement due to statement timeout');
        return await target.query(statement);
      };
    },
  });
}
