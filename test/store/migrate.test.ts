// Migrations on a real server: many at once, repeated, and against a newer schema.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { migrateInstallation } from '../../src/install/migrate-installation.ts';
import {
  DatabaseIsNewerError,
  listMigrations,
  migrate,
  readSchemaVersion,
} from '../../src/store/postgres/migrate.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';

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
