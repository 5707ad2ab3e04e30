// The connection of a lane while it is made: what goes wrong then leaves nothing behind and ends no process.
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Lane } from '../../src/ingest/lane.ts';
import type { Pool } from '../../src/store/pool.ts';
import { createTestDatabase, openTestPool, type TestDatabase } from '../support/database.ts';
import { waitFor } from '../support/wait-for.ts';

let database: TestDatabase;
let direct: Pool;

beforeAll(async () => {
  database = await createTestDatabase();
  direct = openTestPool(database.url, 1);
});
afterAll(async () => {
  await direct?.end();
  await database?.drop();
});

async function countConnections(): Promise<number> {
  const { rows } = await direct.query(
    "select count(*)::int as lanes from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
  );
  return rows[0].lanes;
}

it('keeps no connection to a database that lets nobody write, such as a standby', async () => {
  const name = new URL(database.url).pathname.slice(1);
  await direct.query(`alter database ${name} set default_transaction_read_only = on`);
  const lane = new Lane(database.url);
  for (let attempt = 0; attempt < 5; attempt += 1) {
    await expect(lane.write(async () => undefined)).rejects.toMatchObject({ code: '25006' });
  }
  await waitFor(async () => (await countConnections()) === 0, { what: 'no connection' });
});

const AUTHENTICATED = Buffer.from('R\0\0\0\x08\0\0\0\0', 'latin1');
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1');
const ENDING = endingMessage();

function endingMessage(): Buffer {
  const fields = Buffer.from('SFATAL\0C57P01\0Mterminating connection\0\0', 'latin1');
  const head = Buffer.from('E\0\0\0\0', 'latin1');
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}

/** Says in one packet that the session is ready and that it ends. */
async function startEndingServer(): Promise<Server> {
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATED, READY, ENDING])));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

it('survives a server that ends the session in the moment in which it begins', async () => {
  const server = await startEndingServer();
  const { port } = server.address() as AddressInfo;
  const lane = new Lane(`postgres://somebody@127.0.0.1:${port}/any`);
  await expect(lane.write(async () => undefined)).rejects.toThrow(/connection/i);
  server.close();
});
