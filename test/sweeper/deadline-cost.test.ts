// What a missed deadline costs, in counters that no other program touches: statements of a batch, and bytes of the
// write-ahead log.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { dueAt, seedEndpoint, seedMonitors } from '../support/seed.ts';
import { drain, makeSweep, moveClock } from '../support/sweeper-fixture.ts';

const MONITORS = 1_000;
const BATCH = 250;

let fixture: ProjectFixture;
/** Of one connection, whose counters Postgres keeps. */
let single: Pool;

beforeEach(async () => {
  fixture = await openProjectFixture();
  const { pool, project, databaseUrl } = fixture;
  single = openPool({ databaseUrl, size: 1, applicationName: 'deadline-cost', connectTimeoutMs: 60_000 });
  await seedEndpoint(fixture, 'http://127.0.0.1:9/', true);
  await seedMonitors(pool, project, MONITORS, dueAt((await readNow(pool)) - 1_000));
  await moveClock(pool);
});
afterEach(async () => {
  await single?.end();
  await fixture?.close();
});

/** Bytes that the connection of `single` has written. */
async function walBytes(): Promise<number> {
  await single.query('select pg_stat_force_next_flush()');
  const { rows } = await single.query<{ bytes: number }>(
    'select wal_bytes::bigint as bytes from pg_stat_get_backend_wal(pg_backend_pid())',
  );
  return rows[0]?.bytes ?? Number.NaN;
}

/** Names, or texts, of what the connection is asked while `work` runs. */
async function statementsOf(work: () => Promise<void>): Promise<string[]> {
  const sent: string[] = [];
  single.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((statement: string | { name: string }, ...rest: unknown[]) => {
      sent.push(typeof statement === 'string' ? statement : statement.name);
      return query(statement, ...rest);
    }) as typeof client.query;
  });
  await work();
  return sent;
}

it('a batch of missed deadlines takes eight statements, however many deadlines it has', async () => {
  const sent = await statementsOf(() => drain(makeSweep(single, { batchSize: BATCH })));
  const transactions = sent.join('\n').split('begin\n').slice(1);
  const batches = transactions.filter((statements) => statements.includes('insert-incidents'));
  expect(batches.length).toBeGreaterThanOrEqual(MONITORS / BATCH);
  for (const statements of batches) {
    const [others = ''] = statements.split('\ncommit');
    expect(others.split('\n'), statements).toHaveLength(6);
  }
});

it('a missed deadline writes less than 3,000 bytes of the log', async () => {
  const before = await walBytes();
  await drain(makeSweep(single));
  const { rows } = await fixture.pool.query('select count(*)::integer as opened from deliveries');
  expect(rows).toEqual([{ opened: MONITORS }]);
  expect(((await walBytes()) - before) / MONITORS).toBeLessThan(3_000);
});
