// A lane whose connection fails: no connection is left open, nothing is written twice, no process ends.
import { createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { BeatItem } from '../../src/ingest/apply-items.ts';
import { runBeatTransaction } from '../../src/ingest/beat-transaction.ts';
import { Lane, type LaneBatch } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { runPlainBeats } from '../../src/ingest/plain-beats.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type Listening, listen } from '../support/listen.ts';
import { seedMonitor } from '../support/seed.ts';
import { liveOf } from '../support/stored-rows.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterAll(() => fixture?.close());

/** A batch that its lane lost before anything of it reached the database. */
async function loseBatch(lane: Lane): Promise<LaneBatch> {
  let lost: LaneBatch | undefined;
  const lose = (_: unknown, batch: LaneBatch) => {
    lost = batch;
    return Promise.reject(new Error('The connection is lost.'));
  };
  await expect(lane.write(lose)).rejects.toThrow('lost');
  if (!lost) throw new Error('the lane wrote nothing');
  return lost;
}

type Run = (
  connection: Queryable,
  items: BeatItem[],
  lane: LaneBatch & { directory: MonitorDirectory },
) => Promise<unknown>;

it.each<[string, Run, string | undefined]>([
  ['a plain beat', runPlainBeats, undefined],
  ['a beat with a message', runBeatTransaction, 'a message'],
])('a batch that reaches the database after it was given up writes nothing: %s', async (_, run, message) => {
  const directory = new MonitorDirectory({ db: fixture.pool, minimumIntervalMs: 60_000 });
  const monitor = await seedMonitor(fixture.pool, fixture.project);
  const entry = await directory.load(monitor.address);
  if (!entry) throw new Error('the address was not found');
  const items: BeatItem[] = [{ entry, beat: { kind: 'success', message } }];
  const lane = new Lane(fixture.databaseUrl);
  const lost = await loseBatch(lane);
  expect(await lane.wasCommitted()).toBe(false);
  await lane.write((connection, batch) => run(connection, items, { ...batch, directory }));
  const late = await fixture.pool.connect();
  const arrival = run(late, items, { ...lost, directory });
  await expect(arrival.finally(() => late.release(true))).rejects.toThrow();
  expect((await liveOf(fixture.pool, monitor)).last_sequence).toBe(1);
  await lane.close();
});

it.each([
  ['a time limit of the statement', 'set local statement_timeout = 20; select pg_sleep(60)', '57014'],
  ['a lock that is not to be had', 'lock table credentials', '55P03'],
  ['a fault of the data', 'select 1 / 0', '22012'],
])('a lane keeps its connection, without the transaction, after %s', async (_, statement, code) => {
  const holder = await fixture.pool.connect();
  await holder.query('begin; lock table credentials');
  const lane = new Lane(fixture.databaseUrl);
  const state = () =>
    lane.write(async (connection) => {
      const { rows } = await connection.query(
        "select pg_backend_pid() as pid, to_regclass('of_the_transaction') as rest",
      );
      return rows[0];
    });
  const before = await state();
  const refused = lane.write(async (connection) => {
    await connection.query('begin; create temporary table of_the_transaction ()');
    await connection.query(statement);
  });
  await expect(refused).rejects.toMatchObject({ code });
  expect(await state()).toEqual({ pid: before.pid, rest: null });
  await lane.close();
  holder.release(true);
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

/** A server that announces in one packet that the session is ready and that it ends. */
function startEndingServer(): Promise<Listening> {
  const server = createServer((socket: Socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(Buffer.concat([AUTHENTICATED, READY, ENDING])));
  });
  return listen(server);
}

it('a server that ends the session at its start rejects the batch and does not end the process', async () => {
  const { port, close } = await startEndingServer();
  const lane = new Lane(`postgres://somebody@127.0.0.1:${port}/any`);
  await expect(lane.write(async () => undefined)).rejects.toThrow(/connection/i);
  await close();
});

async function countConnections(): Promise<number> {
  const { rows } = await fixture.pool.query(
    "select count(*)::int as lanes from pg_stat_activity where application_name = 'beatkeeper-ingest' and datname = current_database()",
  );
  return rows[0].lanes;
}

// This test is the last one: after it, connections to this database cannot write.
it('a lane keeps no connection to a database that is read-only, such as a standby', async () => {
  const name = new URL(fixture.databaseUrl).pathname.slice(1);
  await fixture.pool.query(`alter database ${name} set default_transaction_read_only = on`);
  const lane = new Lane(fixture.databaseUrl);
  for (let attempt = 0; attempt < 5; attempt += 1) {
    await expect(lane.write(async () => undefined)).rejects.toMatchObject({ code: '25006' });
  }
  await waitFor(async () => (await countConnections()) === 0, { what: 'no connection' });
});
