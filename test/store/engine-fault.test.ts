// A process whose setting names another engine than the database has: each role says what to set, and changes nothing.
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { findSchemaFault } from '../../src/store/postgres/database-faults.ts';
import { type Engine, isDistributed, useEngine } from '../../src/store/postgres/engine.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { openDatabaseFixture, openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { makeConfig } from '../support/make-config.ts';

const engine: Engine = isDistributed() ? 'citus' : 'postgres';
const other: Engine = isDistributed() ? 'postgres' : 'citus';
const WHAT_TO_SET = `set BEATKEEPER_DATABASE_ENGINE to ${engine}`;

let fixture: ProjectFixture;

beforeAll(async () => {
  fixture = await openProjectFixture();
});
afterEach(() => useEngine(engine));
afterAll(() => fixture?.close());

const useOther = () => useEngine(other);

it('a database of the engine that is set has no fault', async () => {
  expect(await findSchemaFault(fixture.pool)).toBeUndefined();
});

it('a database of another engine than the setting is a fault that names the setting', async () => {
  useOther();
  expect(await findSchemaFault(fixture.pool)).toContain(WHAT_TO_SET);
});

it('migrate refuses a database of another engine, and its schema stays as it is', async () => {
  const { databaseUrl, pool } = fixture;
  const tables = async () =>
    (await pool.query("select from pg_class where relnamespace = 'public'::regnamespace")).rows.length;
  const before = await tables();
  useOther();
  await expect(migrate({ databaseUrl })).rejects.toThrow(WHAT_TO_SET);
  expect(await tables()).toBe(before);
});

it('migrate refuses an empty database without the extension where the engine is citus', async () => {
  const empty = await openDatabaseFixture({ hasSchema: false });
  useEngine('citus');
  try {
    await empty.pool.query('drop extension if exists citus cascade');
    await expect(migrate({ databaseUrl: empty.databaseUrl })).rejects.toThrow('no extension citus');
    const { rows } = await empty.pool.query("select to_regclass('schema_migrations') as made");
    expect(rows).toEqual([{ made: null }]);
  } finally {
    await empty.close();
  }
});

it('a sweeper of another engine is not ready and sweeps nothing', async () => {
  useOther();
  const telemetry = createTelemetry({ role: 'sweeper', logLevel: 'silent' });
  const sweeper = await startSweeper(makeConfig(fixture.databaseUrl), telemetry);
  try {
    const { status, checks } = await telemetry.readiness.readReadiness();
    expect({ status, checks }).toEqual({
      status: 'failing',
      checks: { database: 'ok', schema: 'failing', sweep: 'failing' },
    });
    const { rows } = await fixture.pool.query('select from sweeper_leases');
    expect(rows).toEqual([]);
  } finally {
    await sweeper.close();
  }
});
