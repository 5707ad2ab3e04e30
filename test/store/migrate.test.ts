// Migrations on a real server: many at once, repeated, and against a newer schema.
import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { migrateInstallation } from '../../src/install/migrate-installation.ts';
import { findSchemaFault } from '../../src/store/postgres/database-faults.ts';
import {
  DatabaseIsNewerError,
  findNewestMigration,
  listMigrations,
  migrate,
  readNewestMigration,
} from '../../src/store/postgres/migrate.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import type { ProbePace } from '../../src/store/postgres/while-answering.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { seedMonitors, seedProject } from '../support/seed.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

const KNOWN = (await findNewestMigration()).version;

let database: DatabaseFixture;
let databaseUrl: string;
let pool: Pool;

const readSchemaVersion = async (db: Pool) => (await readNewestMigration(db)).version;

beforeEach(async () => {
  database = await openDatabaseFixture({ hasSchema: false });
  ({ databaseUrl, pool } = database);
});
afterEach(() => database?.close());

it('each migration is applied once, however many processes migrate at the same time', async () => {
  const applied: string[] = [];
  const run = () => migrate({ databaseUrl, onApplied: ({ name }) => applied.push(name) });
  expect(await readSchemaVersion(pool)).toBe(0);
  const versions = await Promise.all([run(), run(), run(), run()]);
  expect(applied).toEqual((await listMigrations()).map(({ name }) => name));
  expect(new Set(versions)).toEqual(new Set([KNOWN]));
  expect(await readNewestMigration(pool)).toEqual(await findNewestMigration());
  expect(await run()).toBe(KNOWN);
});

it('a run that died between two migrations of one version is completed by the next one', async () => {
  await migrate({ databaseUrl });
  const migrations = await listMigrations();
  const [before, last] = migrations.filter(({ version }) => version === 4).slice(-2);
  expect(last?.name).toBe('0004e-operator-behind.sql');
  // As the one before it left it.
  await pool.query('delete from schema_migrations where version > 4');
  await pool.query('drop table operator_part_outages');
  await pool.query('alter table operator_signs drop behind');
  await pool.query('update schema_migrations set name = $1 where version = 4', [before?.name]);
  expect(await findSchemaFault(pool)).toMatch(/has schema version 4d, but this build needs 4e:/);
  const applied: string[] = [];
  await migrate({ databaseUrl, onApplied: ({ name }) => applied.push(name) });
  expect(applied).toEqual([last?.name]);
  expect(await findSchemaFault(pool)).toBeUndefined();
  expect(
    (await pool.query(`select to_regclass('operator_part_outages') as made`)).rows[0].made,
  ).not.toBeNull();
});

describe('a lock that another session holds', () => {
  const lockTimeoutMs = 500;

  it('on a table is waited for no longer, and named with that session', async () => {
    await pool.query(
      'create table schema_migrations (version integer primary key, name text, applied_at timestamptz)',
    );
    const holder = await pool.connect();
    await holder.query(`set application_name = 'the long one'`);
    await holder.query('begin; lock table schema_migrations');
    await expect(migrate({ databaseUrl, lockTimeoutMs })).rejects.toThrow(
      /the long one, idle in transaction since/,
    );
    await holder.query('rollback');
    holder.release();
    await pool.query('drop table schema_migrations');
    expect(await migrate({ databaseUrl })).toBe(KNOWN);
  });

  it('that is the one of migrations is named with that session', async () => {
    const holder = await pool.connect();
    await holder.query(`set application_name = 'the other runner'; select pg_advisory_lock(7302551117)`);
    await expect(migrate({ databaseUrl, lockTimeoutMs })).rejects.toThrow(/the other runner, idle since/);
    holder.release(true);
  });
});

it.runIf(process.platform === 'linux')(
  'the connection is tested while a statement is under way, so that one that hangs is found',
  async () => {
    const holder = await pool.connect();
    await holder.query('select pg_advisory_lock(7302551117)');
    const run = migrate({ databaseUrl });
    // Of the socket of the runner: the kernel has a timer to test whether the other side is there.
    const isTested = async () => {
      const { rows } = await pool.query(
        `select client_port as port from pg_stat_activity
       where application_name = 'beatkeeper-migrate' and datname = current_database()`,
      );
      const port = rows[0]?.port?.toString(16).toUpperCase().padStart(4, '0');
      const sockets = (await readFile('/proc/net/tcp', 'utf8'))
        .split('\n')
        .map((line) => line.trim().split(/\s+/));
      return sockets.some(
        ([, local, , , , timer]) => local?.endsWith(`:${port}`) && timer?.startsWith('02:'),
      );
    };
    await waitFor(isTested, { what: 'the connection is tested' });
    holder.release(true);
    await run;
  },
);

it('a build accepts a schema one version newer, as during an upgrade, and refuses one two versions newer', async () => {
  const installation = {
    databaseUrl,
    organization: 'default',
    plan: 'scale',
    billingSource: 'static',
    waitSeconds: 0,
  } as const;
  const { log } = createTelemetry({ role: 'test', logLevel: 'silent' });
  await migrateInstallation(installation, log);
  await pool.query("insert into schema_migrations (version, name) values ($1, 'later')", [KNOWN + 1]);
  await expect(migrate({ databaseUrl })).rejects.toThrow(DatabaseIsNewerError);
  await migrateInstallation(installation, log);
  await pool.query("insert into schema_migrations (version, name) values ($1, 'much later')", [KNOWN + 2]);
  await expect(migrateInstallation(installation, log)).rejects.toThrow('run a newer Beatkeeper');
});

describe('an installation with databases of jurisdictions', () => {
  const options = {
    organization: 'default',
    plan: 'scale',
    billingSource: 'static',
    waitSeconds: 0,
  } as const;
  const { log } = createTelemetry({ role: 'test', logLevel: 'silent' });
  /** Nobody listens there. */
  const nowhere = 'postgres://nobody@127.0.0.1:1/none';

  it('has the schema in each of them, and its organization in the default one alone', async () => {
    const eu = await openDatabaseFixture({ hasSchema: false });
    try {
      const places = [{ jurisdiction: 'eu' as const, databaseUrl: eu.databaseUrl }];
      const run = () => migrateInstallation({ ...options, databaseUrl, places }, log);
      await Promise.all([run(), run()]);
      expect(await readSchemaVersion(eu.pool)).toBe(KNOWN);
      expect((await pool.query('select from organizations')).rowCount).toBe(1);
      expect((await eu.pool.query('select from organizations')).rowCount).toBe(0);
    } finally {
      await eu.close();
    }
  });

  it('has the schema in all that answer, and a later run migrates the one that was away', async () => {
    const [eu, us] = await Promise.all([1, 2].map(() => openDatabaseFixture({ hasSchema: false })));
    if (!eu || !us) throw new Error('no databases');
    const placesOf = (euUrl: string) => [
      { jurisdiction: 'eu' as const, databaseUrl: euUrl },
      { jurisdiction: 'us' as const, databaseUrl: us.databaseUrl },
    ];
    try {
      await migrateInstallation({ ...options, databaseUrl, places: placesOf(nowhere) }, log);
      expect(await readSchemaVersion(pool)).toBe(KNOWN);
      expect(await readSchemaVersion(us.pool)).toBe(KNOWN);
      await migrateInstallation({ ...options, databaseUrl, places: placesOf(eu.databaseUrl) }, log);
      expect(await readSchemaVersion(eu.pool)).toBe(KNOWN);
    } finally {
      await Promise.all([eu.close(), us.close()]);
    }
  });

  it('waits for no lock that another session holds in one of them', async () => {
    const eu = await openDatabaseFixture({ hasSchema: false });
    const holder = await eu.pool.connect();
    try {
      await holder.query('select pg_advisory_lock(7302551117)'); // that of migrate
      const places = [{ jurisdiction: 'eu' as const, databaseUrl: eu.databaseUrl }];
      await migrateInstallation({ ...options, databaseUrl, places }, log);
      expect(await readSchemaVersion(pool)).toBe(KNOWN);
      expect(await readSchemaVersion(eu.pool)).toBe(0);
    } finally {
      holder.release(true);
      await eu.close();
    }
  });

  describe('a database that has not answered yet in the middle of its migration', () => {
    const first = 'insert into schema_migrations';
    let eu: DatabaseFixture;
    let us: DatabaseFixture;
    let proxy: TcpProxy;

    beforeEach(async () => {
      [eu, us] = await Promise.all([
        openDatabaseFixture({ hasSchema: false }),
        openDatabaseFixture({ hasSchema: false }),
      ]);
      proxy = await TcpProxy.start(eu.databaseUrl);
      proxy.holdAnswerTo(first);
    });
    afterEach(async () => {
      await proxy?.close();
      await Promise.all([eu?.close(), us?.close()]);
    });

    /** Its log so far. No probe goes before the other place is migrated, and the answer of this one is held. */
    function start({ pause, limitMs }: ProbePace) {
      const lines: { level: string; database?: string; msg: string; err?: Error }[] = [];
      const ownLog = createLog(
        { role: 'migrate', level: 'info' },
        { write: (line) => lines.push(JSON.parse(line)) },
      );
      const isOtherDone = () =>
        lines.some(({ database: place, msg }) => place === 'us' && msg === 'The schema fits this build.');
      const held = waitFor(() => proxy.hasHeldAnswer && isOtherDone());
      const places = [
        { jurisdiction: 'eu' as const, databaseUrl: proxy.url },
        { jurisdiction: 'us' as const, databaseUrl: us.databaseUrl },
      ];
      const probePace: ProbePace = { pause: (signal) => held.then(() => pause(signal)), limitMs };
      const migrated = migrateInstallation({ ...options, databaseUrl, places, probePace }, ownLog);
      return { lines, held, migrated };
    }

    it('is given up where three probes in a row have no answer either, and those of others are migrated', async () => {
      const { promise: hangs, resolve } = Promise.withResolvers<void>();
      const { lines, held, migrated } = start({ pause: () => hangs, limitMs: 50 });
      await held;
      proxy.blackHole();
      resolve();
      await migrated;
      expect(lines.at(-1)).toMatchObject({
        database: 'eu',
        msg: 'The database of this jurisdiction is not migrated: run migrate again.',
        err: { message: expect.stringContaining('3 connections in a row had no answer') },
      });
      expect(await readSchemaVersion(pool)).toBe(KNOWN);
      expect(await readSchemaVersion(us.pool)).toBe(KNOWN);
      expect(await readSchemaVersion(eu.pool)).toBe(0);
    });

    it('is named in the log where its connection breaks, and the process goes on', async () => {
      const { lines, held, migrated } = start({ pause: () => new Promise(() => undefined), limitMs: 60_000 });
      await held;
      proxy.reset();
      await migrated;
      const err = { message: expect.stringContaining('failed: read ECONNRESET') };
      expect(lines.at(-1)).toMatchObject({ database: 'eu', level: 'error', err });
      expect(await readSchemaVersion(us.pool)).toBe(KNOWN);
    });

    it('is waited for, however long, while probes are answered', async () => {
      let probes = 0;
      const pause = async () => {
        probes += 1;
      };
      const { lines, migrated } = start({ pause, limitMs: 60_000 });
      await waitFor(() => probes > 20);
      expect(await readSchemaVersion(eu.pool)).toBe(0);
      proxy.release();
      await migrated;
      expect(lines.at(-1)).toMatchObject({ database: 'eu', msg: 'The schema fits this build.' });
      expect(await readSchemaVersion(eu.pool)).toBe(KNOWN);
    });
  });

  it('changes nothing in the database of another installation, whose schema is older', async () => {
    const other = await openDatabaseFixture({ hasSchema: false });
    try {
      await migrateInstallation({ ...options, databaseUrl: other.databaseUrl }, log);
      const places = [{ jurisdiction: 'eu' as const, databaseUrl: other.databaseUrl }];
      // As if the last migration were not there yet: to apply it again would fail or change it.
      await other.pool.query('delete from schema_migrations where version = $1', [KNOWN]);
      const lines: string[] = [];
      const ownLog = createLog({ role: 'migrate', level: 'error' }, { write: (line) => lines.push(line) });
      await migrateInstallation({ ...options, databaseUrl, places }, ownLog);
      expect(lines.join()).toContain('has organizations of its own');
      expect(await readSchemaVersion(other.pool)).toBe(KNOWN - 1);
    } finally {
      await other.close();
    }
  });

  it('changes nothing in a place that has an owner while the default database does not say whether it is that', async () => {
    await migrate({ databaseUrl });
    await pool.query(
      'insert into directory_copy (installation_id, jurisdiction) values (gen_random_uuid(), $1)',
      ['eu'],
    );
    await pool.query('delete from schema_migrations where version = $1', [KNOWN]);
    const places = [{ jurisdiction: 'eu' as const, databaseUrl }];
    const lines: string[] = [];
    const ownLog = createLog({ role: 'migrate', level: 'error' }, { write: (line) => lines.push(line) });
    const run = migrateInstallation({ ...options, databaseUrl: nowhere, places }, ownLog);
    await expect(run).rejects.toThrow('ECONNREFUSED');
    expect(lines.join()).toContain('does not say whether it is this one');
    expect(await readSchemaVersion(pool)).toBe(KNOWN - 1);
  });

  it('fails where the default database is away, and has migrated the others', async () => {
    const places = [{ jurisdiction: 'eu' as const, databaseUrl }];
    const run = migrateInstallation({ ...options, databaseUrl: nowhere, places }, log);
    await expect(run).rejects.toThrow('ECONNREFUSED');
    expect(await readSchemaVersion(pool)).toBe(KNOWN);
  });

  it('names the jurisdictions whose monitors are left in the default database', async () => {
    const [eu, us] = await Promise.all([1, 2].map(() => openDatabaseFixture({ hasSchema: false })));
    if (!eu || !us) throw new Error('no databases');
    const lines: string[] = [];
    const ownLog = createLog({ role: 'migrate', level: 'warn' }, { write: (line) => lines.push(line) });
    const places = [
      { jurisdiction: 'eu' as const, databaseUrl: eu.databaseUrl },
      { jurisdiction: 'us' as const, databaseUrl: us.databaseUrl },
    ];
    const run = () => migrateInstallation({ ...options, databaseUrl, places }, ownLog);
    try {
      await run();
      expect(lines).toEqual([]);
      await seedMonitors(pool, await seedProject(pool), 2, { configuration: { jurisdiction: 'eu' } });
      await run();
      expect(lines.map((line) => JSON.parse(line))).toMatchObject([
        { jurisdiction: 'eu', msg: expect.stringContaining('they stay there until they are deleted') },
      ]);
    } finally {
      await Promise.all([eu.close(), us.close()]);
    }
  });
});
