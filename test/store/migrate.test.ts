// Migrations on a real server: many at once, repeated, and against a newer schema.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { migrateInstallation } from '../../src/install/migrate-installation.ts';
import {
  DatabaseIsNewerError,
  listMigrations,
  migrate,
  readSchemaVersion,
} from '../../src/store/postgres/migrate.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { seedMonitors, seedProject } from '../support/seed.ts';

let database: DatabaseFixture;
let databaseUrl: string;
let pool: Pool;

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
  const known = await listMigrations();
  expect(applied).toEqual(known.map(({ name }) => name));
  expect(new Set(versions)).toEqual(new Set([known.length]));
  expect(await readSchemaVersion(pool)).toBe(known.length);
  expect(await run()).toBe(known.length);
});

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
  const known = (await listMigrations()).length;
  await pool.query("insert into schema_migrations (version, name) values ($1, 'later')", [known + 1]);
  await expect(migrate({ databaseUrl })).rejects.toThrow(DatabaseIsNewerError);
  await migrateInstallation(installation, log);
  await pool.query("insert into schema_migrations (version, name) values ($1, 'much later')", [known + 2]);
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
      expect(await readSchemaVersion(eu.pool)).toBe((await listMigrations()).length);
      expect((await pool.query('select from organizations')).rowCount).toBe(1);
      expect((await eu.pool.query('select from organizations')).rowCount).toBe(0);
    } finally {
      await eu.close();
    }
  });

  it('has the schema in all that answer, and a later run migrates the one that was away', async () => {
    const [eu, us] = await Promise.all([1, 2].map(() => openDatabaseFixture({ hasSchema: false })));
    if (!eu || !us) throw new Error('no databases');
    const known = (await listMigrations()).length;
    const placesOf = (euUrl: string) => [
      { jurisdiction: 'eu' as const, databaseUrl: euUrl },
      { jurisdiction: 'us' as const, databaseUrl: us.databaseUrl },
    ];
    try {
      await migrateInstallation({ ...options, databaseUrl, places: placesOf(nowhere) }, log);
      expect(await readSchemaVersion(pool)).toBe(known);
      expect(await readSchemaVersion(us.pool)).toBe(known);
      await migrateInstallation({ ...options, databaseUrl, places: placesOf(eu.databaseUrl) }, log);
      expect(await readSchemaVersion(eu.pool)).toBe(known);
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
      expect(await readSchemaVersion(pool)).toBe((await listMigrations()).length);
      expect(await readSchemaVersion(eu.pool)).toBe(0);
    } finally {
      holder.release(true);
      await eu.close();
    }
  });

  it('changes nothing in the database of another installation, whose schema is older', async () => {
    const other = await openDatabaseFixture({ hasSchema: false });
    try {
      await migrateInstallation({ ...options, databaseUrl: other.databaseUrl }, log);
      const known = (await listMigrations()).length;
      const places = [{ jurisdiction: 'eu' as const, databaseUrl: other.databaseUrl }];
      // As if the last migration were not there yet: to apply it again would fail or change it.
      await other.pool.query('delete from schema_migrations where version = $1', [known]);
      const lines: string[] = [];
      const ownLog = createLog({ role: 'migrate', level: 'error' }, { write: (line) => lines.push(line) });
      await migrateInstallation({ ...options, databaseUrl, places }, ownLog);
      expect(lines.join()).toContain('has organizations of its own');
      expect(await readSchemaVersion(other.pool)).toBe(known - 1);
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
    const known = (await listMigrations()).length;
    await pool.query('delete from schema_migrations where version = $1', [known]);
    const places = [{ jurisdiction: 'eu' as const, databaseUrl }];
    const lines: string[] = [];
    const ownLog = createLog({ role: 'migrate', level: 'error' }, { write: (line) => lines.push(line) });
    const run = migrateInstallation({ ...options, databaseUrl: nowhere, places }, ownLog);
    await expect(run).rejects.toThrow('ECONNREFUSED');
    expect(lines.join()).toContain('does not say whether it is this one');
    expect(await readSchemaVersion(pool)).toBe(known - 1);
  });

  it('fails where the default database is away, and has migrated the others', async () => {
    const places = [{ jurisdiction: 'eu' as const, databaseUrl }];
    const run = migrateInstallation({ ...options, databaseUrl: nowhere, places }, log);
    await expect(run).rejects.toThrow('ECONNREFUSED');
    expect(await readSchemaVersion(pool)).toBe((await listMigrations()).length);
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
