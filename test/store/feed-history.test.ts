// The history of a cursor of the status feed: wherever an older state of the database can be put back, it has another name,
// and its readers begin again with every monitor.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterAll, afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { findPostgresBinaries } from '../../src/dev/postgres/postgres-binaries.ts';
import { touchLive } from '../../src/store/monitors/live.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { copyDatabase, openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { FeedReader } from '../support/feed-reader.ts';
import { OwnPostgres } from '../support/own-postgres.ts';
import { type SeedMonitor, seedMonitors, seedProject } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

const run = promisify(execFile);
const SAVE = 'create table saved as select * from monitor_live';
/** What a dump without its schema does to a table that was emptied. */
const RESTORE = 'begin; truncate monitor_live; insert into monitor_live select * from saved; commit';

/** A reader that has seen everything, also a change that the restore undoes. */
async function readerAt(pool: Pool, [monitor]: readonly SeedMonitor[]): Promise<FeedReader> {
  if (!monitor) throw new Error('no monitor');
  const { organizationId, projectId } = monitor;
  const reader = new FeedReader(pool, { organizationId, projectId });
  await reader.drain();
  await touchLive(pool, monitor);
  await reader.drain();
  return reader;
}

/** What the next page shows. */
const next = async (reader: FeedReader, options = {}) =>
  (await reader.read(options)).items.map(({ monitor }) => monitor.monitorKey).sort();
const all = (monitors: readonly SeedMonitor[]) => monitors.map(({ monitorKey }) => monitorKey).sort();

describe('rows that are put back', () => {
  const fixtures: ProjectFixture[] = [];
  let pool: Pool;
  let monitors: SeedMonitor[];
  beforeEach(async () => {
    const fixture = await openProjectFixture();
    fixtures.push(fixture);
    pool = fixture.pool;
    monitors = await seedMonitors(pool, fixture.project, 3);
    await pool.query(SAVE);
  });
  afterAll(() => Promise.all(fixtures.map((fixture) => fixture.close())));

  it('a table that was emptied and filled again begins a new history', async () => {
    const reader = await readerAt(pool, monitors);
    await pool.query(RESTORE);
    expect(await next(reader)).toEqual(all(monitors));
    expect(await next(reader)).toEqual([]);
  });

  it('a call that is held when rows are put back answers with every monitor', async () => {
    const reader = await readerAt(pool, monitors);
    const held = next(reader, { waitSeconds: 60 });
    await pool.query(RESTORE);
    expect(await held).toEqual(all(monitors));
  });

  it('what is read while a dump is restored does not hide the rows that come after it', async () => {
    const reader = await readerAt(pool, monitors);
    await pool.query('alter table monitor_live drop constraint monitor_live_pkey; truncate monitor_live');
    expect(await next(reader)).toEqual([]);
    await pool.query('insert into monitor_live select * from saved');
    await pool.query('alter table monitor_live add primary key (project_id, monitor_key)');
    expect(await next(reader)).toEqual(all(monitors));
  });

  it('a copy of the database on the same server has another history', async () => {
    const reader = await readerAt(pool, monitors);
    const fixture = fixtures.pop();
    await pool.end();
    const name = `${inject('postgresPrefix')}_${randomBytes(6).toString('hex')}`;
    const url = new URL(fixture?.databaseUrl ?? '');
    await copyDatabase(url.pathname.slice(1), name);
    url.pathname = `/${name}`;
    const copy = openPool({ databaseUrl: url.href, size: 2, applicationName: 'test' });
    const [{ organizationId, projectId } = { organizationId: '', projectId: '' }] = monitors;
    expect(await next(new FeedReader(copy, { organizationId, projectId }, reader.cursor))).toEqual(
      all(monitors),
    );
    await copy.end();
  });
});

const hasBinaries = (await findPostgresBinaries()) !== undefined;
describe.skipIf(!hasBinaries)('a server that lost its newest transactions', () => {
  let server: OwnPostgres;
  let pool: Pool;
  let monitors: SeedMonitor[];
  const open = () =>
    openPool({ databaseUrl: server.url, size: 2, applicationName: 'test', onError: () => undefined });
  beforeEach(async () => {
    server = await OwnPostgres.create();
    await migrate({ databaseUrl: server.url });
    pool = open();
    monitors = await seedMonitors(pool, await seedProject(pool), 3);
  });
  afterEach(async () => {
    await pool.end();
    await server.remove();
  });

  const whileStopped = async (work: () => Promise<unknown>) => {
    await pool.end();
    await server.stop();
    await work();
    await server.start();
    pool = open();
  };

  it('a snapshot of the volume that is put back begins a new history', async () => {
    const { dataFolder } = server;
    await whileStopped(() => run('cp', ['-a', dataFolder, `${dataFolder}.saved`]));
    const before = await readerAt(pool, monitors);
    await whileStopped(async () => {
      await run('rm', ['-r', dataFolder]);
      await run('mv', [`${dataFolder}.saved`, dataFolder]);
    });
    // It has the id of a transaction that the reader has seen.
    await touchLive(pool, monitors[1] as SeedMonitor);
    const [{ organizationId, projectId } = { organizationId: '', projectId: '' }] = monitors;
    const reader = new FeedReader(pool, { organizationId, projectId }, before.cursor);
    expect(await next(reader)).toEqual(all(monitors));
  });

  it('a crash of the server, which may give ids again, begins a new history', async () => {
    const reader = await readerAt(pool, monitors);
    const victim = new pg.Client({ connectionString: server.url });
    victim.on('error', () => undefined);
    await victim.connect();
    const { rows } = await victim.query('select pg_backend_pid() as pid');
    process.kill(rows[0].pid, 'SIGKILL');
    const shown: string[] = [];
    // The server ends every connection and starts again; a page may be read before it does.
    const isShown = async () => {
      shown.push(...(await next(reader).catch(() => [])));
      return shown.length > 0;
    };
    await waitFor(isShown, { what: 'the feed begins again' });
    expect(shown).toEqual(all(monitors));
  });
});
