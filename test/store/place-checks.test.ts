// Whether a process uses the database of a jurisdiction: only one that is the installation's own and fit for use.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PlaceChecks } from '../../src/store/directory/place-checks.ts';
import { type Databases, openDatabases } from '../../src/store/postgres/databases.ts';
import { GateClosed } from '../../src/store/postgres/gate.ts';
import { openPipeline } from '../../src/store/postgres/pipeline.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { openDatabaseFixture } from '../support/database-fixture.ts';
import { copyAll, type DirectoryFixture, openDirectoryFixture } from '../support/directory-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { seedProject } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: DirectoryFixture;
let main: TcpProxy;
const started: (() => Promise<unknown>)[] = [];

beforeEach(async () => {
  fixture = await openDirectoryFixture();
  main = await TcpProxy.start(fixture.sourceUrl);
});
afterEach(async () => {
  await Promise.all(started.splice(0).map((end) => end()));
  await main?.close();
  await fixture?.close();
});

/** A process with these databases and keys, after its first look. */
async function start({ placeUrl = fixture.placeUrl, key = ENCRYPTION_KEY } = {}) {
  const options = { databaseUrl: main.url, size: 2, applicationName: 'test' };
  const databases = openDatabases(options, [{ jurisdiction: 'eu', databaseUrl: placeUrl }]);
  const { places } = databases;
  const checks = new PlaceChecks({ databaseUrl: main.url, places, secrets: new SecretBox([key]) });
  started.push(async () => {
    await checks.stop();
    await databases.end();
  });
  await checks.looked();
  return databases;
}

const faultOf = ({ places }: Databases) => places[0]?.gate.fault;
const ask = (databases: Databases) => databases.of('eu').query('select from organizations');
const copy = () => copyAll(fixture.source, fixture.place);
const opened = (databases: Databases) =>
  waitFor(async () => faultOf(databases) === undefined, { what: 'the place is used' });

describe('a place', () => {
  it('is not used before a sweeper has claimed it, and then is', async () => {
    const databases = await start();
    expect(faultOf(databases)).toContain('is empty');
    await expect(ask(databases)).rejects.toThrow(GateClosed);
    const gate = databases.places[0]?.gate;
    const pipeline = { databaseUrl: fixture.placeUrl, applicationName: 'test', gate };
    await expect(openPipeline(pipeline, () => undefined)).rejects.toThrow(GateClosed);
    await copy();
    await opened(databases);
    await ask(databases);
  });

  it('is not used where it is another installation’s, also if it was used before', async () => {
    await copy();
    const databases = await start();
    await ask(databases);
    await fixture.place.pool.query('update directory_copy set installation_id = gen_random_uuid()');
    const other = await start();
    expect(faultOf(other)).toContain('another installation');
    await waitFor(async () => faultOf(databases) !== undefined, { what: 'it is used no more' });
    // Not on the connection that it has either.
    await expect(ask(databases)).rejects.toThrow('another installation');
  });

  it('is not used on a connection of before after its gate has closed and opened again', async () => {
    await copy();
    const databases = await start();
    const [place] = databases.places;
    if (!place) throw new Error('no place');
    const { gate, pool } = place;
    const closeAndOpen = () => {
      gate.close('It may be another one.');
      gate.open();
    };
    const ended = () => waitFor(async () => pool.totalCount === 0, { what: 'its connections have ended' });

    await ask(databases);
    closeAndOpen();
    await ended();

    const tx = await pool.connect();
    await tx.query('begin');
    closeAndOpen();
    await expect(tx.query('commit')).rejects.toThrow(GateClosed);
    tx.release();
    await ended();

    // What is under way has its answer, and its connection no other one: not with statements that wait for it, nor with one
    // that comes as soon as it is free.
    const startWaiting = async () => {
      const holder = await fixture.place.pool.connect();
      await holder.query('select pg_advisory_lock(1)');
      const answers = [1, 2].map(() =>
        pool.query('select pg_backend_pid() as pid, pg_advisory_xact_lock_shared(1)'),
      );
      const areWaiting = async () =>
        (await holder.query(`select from pg_locks where locktype = 'advisory' and not granted`)).rowCount ===
        2;
      await waitFor(areWaiting, { what: 'statements are under way on each connection' });
      closeAndOpen();
      return { answers, finish: () => holder.release(true) };
    };
    const pidOf = async (answer: Promise<{ rows: { pid: number }[] }>) => (await answer).rows[0]?.pid;
    const askPid = () => pidOf(pool.query('select pg_backend_pid() as pid'));

    const crowded = await startWaiting();
    const waiters = Array.from({ length: 8 }, askPid);
    crowded.finish();
    const before = await Promise.all(crowded.answers.map(pidOf));
    for (const pid of await Promise.all(waiters)) expect(before).not.toContain(pid);

    const alone = await startWaiting();
    alone.finish();
    const nexts = alone.answers.map(async (answer) => ({
      before: await pidOf(answer),
      next: await askPid(),
    }));
    const pairs = await Promise.all(nexts);
    for (const { next } of pairs) expect(pairs.map(({ before }) => before)).not.toContain(next);
  });

  it('is not used where it has organizations and no copies, or is the default database', async () => {
    await seedProject(fixture.place.pool);
    expect(faultOf(await start())).toContain('organizations of its own');
    await fixture.source.query(`insert into directory_places (jurisdiction) values ('eu')`);
    expect(faultOf(await start({ placeUrl: fixture.sourceUrl }))).toContain('default database');
  });

  it('is not used without a schema, nor while a commit of it may be lost', async () => {
    const empty = await openDatabaseFixture({ hasSchema: false });
    started.push(() => empty.close());
    expect(faultOf(await start({ placeUrl: empty.databaseUrl }))).toContain('run the role migrate');
    await copy();
    const name = new URL(fixture.placeUrl).pathname.slice(1);
    await fixture.source.query(`alter database ${name} set synchronous_commit = off`);
    const databases = await start();
    expect(faultOf(databases)).toContain('synchronous_commit');
    await databases.default.query('select from organizations');
    await fixture.source.query(`alter database ${name} reset synchronous_commit`);
    await opened(databases);
  });
});

describe('while the default database is away, a place', () => {
  it('is used by processes that know it, and by those with the keys of one that does', async () => {
    await copy();
    const before = await start();
    await main.refuse();
    await ask(before);
    await ask(await start());
    expect(faultOf(before)).toBeUndefined();
  });

  it('is not used by a process that cannot know whose it is, until the default database is back', async () => {
    await copy();
    await main.refuse();
    const early = await start();
    expect(faultOf(early)).toContain('may be another installation');
    await main.accept();
    await opened(early);
    await main.refuse();
    const stranger = await start({ key: { id: 'test', key: Buffer.alloc(32, 2) } });
    expect(faultOf(stranger)).toContain('may be another installation');
  });
});
