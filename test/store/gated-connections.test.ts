// Connections whose gate closes: each ends as soon as nothing is under way on it.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Gate, GateClosed } from '../../src/store/postgres/gate.ts';
import { connectionConfig, LimitedClient } from '../../src/store/postgres/pool.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';

let database: DatabaseFixture;
beforeAll(async () => {
  database = await openDatabaseFixture();
});
afterAll(() => database?.close());

/** A connection that has passed its gate. */
async function connect() {
  const gate = new Gate('not looked yet');
  gate.open();
  const { databaseUrl } = database;
  const client = new LimitedClient(connectionConfig({ databaseUrl, applicationName: 'test', gate }));
  client.on('error', () => undefined);
  await client.connect();
  const { stream } = client.connection;
  return { gate, client, hasEnded: () => stream.destroyed };
}

it('one with a statement under way ends after its answer, and takes no other one', async () => {
  const { gate, client, hasEnded } = await connect();
  const answer = client.query('select 1 as one');
  gate.close('not the installation');
  expect(hasEnded()).toBe(false);
  expect(await answer).toMatchObject({ rows: [{ one: 1 }] });
  expect(hasEnded()).toBe(true);
  gate.open();
  await expect(client.query('select 1')).rejects.toThrow(GateClosed);
});

it('a statement that the driver refuses at once is answered by that, and keeps no connection from its end', async () => {
  const { gate, client, hasEnded } = await connect();
  const refusal = 'null or undefined query';
  await expect(client.query(undefined as never)).rejects.toThrow(refusal);
  const told = await new Promise((done) => client.query(undefined as never, [], done));
  expect(told).toMatchObject({ message: expect.stringContaining(refusal) });
  expect(await client.query('select 1 as one')).toMatchObject({ rows: [{ one: 1 }] });
  gate.close('not the installation');
  expect(hasEnded()).toBe(true);
});
