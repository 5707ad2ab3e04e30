// Connections that hang, as after a network failure: neither an error nor an answer arrives.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openPipeline } from '../../src/store/postgres/pipeline.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { standStill } from '../support/stand-still.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

let database: DatabaseFixture;
let proxy: TcpProxy;

beforeAll(async () => {
  database = await openDatabaseFixture();
  proxy = await TcpProxy.start(database.databaseUrl);
});
afterAll(async () => {
  await proxy?.close();
  await database?.close();
});

const HANGS = 'Query read timeout';

/** A pool with `size` idle connections. A statement is hung after 9 s, longer than a busy machine stands still. */
async function openBusyPool(size: number): Promise<Pool> {
  const pool = openPool({
    databaseUrl: proxy.url,
    size,
    applicationName: 'test',
    statementTimeoutMs: 8_000,
    connectTimeoutMs: 180_000,
  });
  const connections = await Promise.all(Array.from({ length: size }, () => pool.connect()));
  for (const connection of connections) connection.release();
  expect(pool.idleCount).toBe(size);
  return pool;
}

it('after one connection hangs the pool closes its idle neighbours, and later queries do not wait for a time-out', async () => {
  const pool = await openBusyPool(4);
  proxy.blackHole();
  await expect(pool.query('select 1')).rejects.toThrow(HANGS);
  proxy.forward();
  for (let query = 0; query < 8; query += 1) {
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  }
  await pool.end();
});

it('a transaction on a hung connection ends without a rollback, for which it would wait once more', async () => {
  const pool = await openBusyPool(2);
  const sent: unknown[] = [];
  pool.on('acquire', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      sent.push(args[0]);
      return query(...args);
    }) as typeof client.query;
  });
  const transaction = inTransaction(pool, async (tx) => {
    proxy.blackHole();
    await tx.query('select 1');
  });
  await expect(transaction).rejects.toThrow(HANGS);
  expect(sent).toEqual(['begin', 'select 1']);
  proxy.forward();
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await pool.end();
});

/** Of a statement: the driver's part is a second more. */
const LIMIT_MS = 1_500;

it('a statement whose answer comes while the process stands still for longer than its time limit succeeds', async () => {
  const options = {
    databaseUrl: database.databaseUrl,
    applicationName: 'test',
    statementTimeoutMs: LIMIT_MS,
  };
  const pool = openPool({ ...options, size: 1 });
  const pipeline = await openPipeline(options, () => undefined);
  for (const connection of [pool, pipeline]) {
    await connection.query('select 1');
    const answer = connection.query('select 1 as one');
    // The statement is sent in the next turn of the event loop.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    standStill(database.databaseUrl, LIMIT_MS + 1_000);
    expect((await answer).rows).toEqual([{ one: 1 }]);
  }
  await pipeline.close();
  await pool.end();
});
