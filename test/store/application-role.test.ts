// Two roles of the database: one owns the schema, and `api` and `sweeper` do all of their work as another one, which
// changes rows and no table.
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApi } from '../../src/api/start-api.ts';
import { migrate, readNewestMigration } from '../../src/store/postgres/migrate.ts';
import { PARTITIONED_TABLES, partitionAt } from '../../src/store/postgres/partitions.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { readNow } from '../../src/store/postgres/transaction.ts';
import { startSweeper } from '../../src/sweeper/start-sweeper.ts';
import { sweepPartitions } from '../../src/sweeper/upkeep/sweep-partitions.ts';
import { sweepRetention } from '../../src/sweeper/upkeep/sweep-retention.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { createApiClient } from '../support/api-client.ts';
import { type DatabaseFixture, openDatabaseFixture, servers } from '../support/database-fixture.ts';
import { copyAll } from '../support/directory-fixture.ts';
import { runOnAll } from '../support/distributed-database.ts';
import { ENCRYPTION_KEY, makeConfig } from '../support/make-config.ts';
import { startReceiver } from '../support/receiver.ts';
import { runRole } from '../support/run-program.ts';
import { dueAt, seedCredential, seedEndpoint, seedMonitor, seedProject } from '../support/seed.ts';
import { makeParts } from '../support/sweeper-fixture.ts';
import { waitFor } from '../support/wait-for.ts';

const DAY_MS = 86_400_000;
const [observations, buckets] = PARTITIONED_TABLES;
if (!observations || !buckets) throw new Error('no tables');

let database: DatabaseFixture;
/** For the test's own queries, as a superuser. */
let pool: Pool;
let roles: Roles;
/** As `api` and `sweeper`. */
let application: Pool;

interface Roles {
  owner: string;
  application: string;
  ownerUrl: string;
  applicationUrl: string;
}

beforeAll(async () => {
  database = await openDatabaseFixture({ hasSchema: false });
  ({ pool } = database);
  roles = await createRoles();
  await migrate({ databaseUrl: roles.ownerUrl, applicationRole: roles.application });
  application = openPool({ databaseUrl: roles.applicationUrl, size: 4, applicationName: 'test' });
});
afterAll(async () => {
  await application?.end();
  await database?.close();
  if (roles) await dropRoles();
});

/** As docs/operations.md says; with names that need quotes. */
async function createRoles(): Promise<Roles> {
  const mark = randomBytes(5).toString('hex');
  const names = { owner: `Owner-${mark}`, application: `Application-${mark}` };
  const urlOf = (role: string) => {
    const url = new URL(database.databaseUrl);
    [url.username, url.password] = [role, mark];
    return url.href;
  };
  for (const name of Object.values(names)) await pool.query(`create role "${name}" login password '${mark}'`);
  const name = new URL(database.databaseUrl).pathname.slice(1);
  await runOnAll(servers(), `alter database ${name} owner to "${names.owner}"`);
  return { ...names, ownerUrl: urlOf(names.owner), applicationUrl: urlOf(names.application) };
}

/** What they owned has gone with the database. */
async function dropRoles(): Promise<void> {
  for (const role of [roles.application, roles.owner])
    await runOnAll(servers(), `drop role if exists "${role}"`);
}

async function partitionsOf(table: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    'select inhrelid::regclass::text as name from pg_inherits where inhparent = $1::regclass order by 1',
    [table],
  );
  return rows.map(({ name }) => name);
}

const silent = (role: string) => createTelemetry({ role, logLevel: 'silent' });
const makeDeps = () => ({ pool: application, slowPool: application, ...makeParts() });

describe('the role of api and sweeper', () => {
  it('api creates, changes and lists monitors and writes their beats as a role that may not change tables', async () => {
    const { projectId } = await seedProject(pool);
    const telemetry = silent('api');
    const api = await startApi(makeConfig(roles.applicationUrl), telemetry);
    const url = `http://127.0.0.1:${api.port}`;
    try {
      const isReady = async () => (await telemetry.readiness.readReadiness()).status === 'ok';
      await waitFor(isReady, { what: 'the api is ready' });
      const client = createApiClient({
        url,
        token: await seedCredential(pool, { projectId, preset: 'manage' }),
      });
      const body = { name: 'backup', intervalSeconds: 60, callback: { kind: 'disabled' as const } };
      const { body: made, etag } = await client.expectSuccess('createMonitor', { body });
      const { monitorId } = made;
      await client.expectSuccess('updateMonitor', {
        params: { monitorId },
        ifMatch: etag,
        body: { patch: { name: 'nightly' } },
      });
      const address = url + new URL(made.publishUrl ?? '').pathname;
      for (const path of ['', '/start', '/fail', '']) {
        const answer = await fetch(address + path, { method: 'POST' });
        expect(answer.status).toBe(200);
      }
      const { body: list } = await client.expectSuccess('listIncidents');
      expect(list.items).toMatchObject([{ kind: 'reported_failure' }]);
    } finally {
      await api.close();
    }
  });

  it('sweeper opens incidents, delivers alerts and runs its jobs as a role that may not change tables', async () => {
    const project = await seedProject(pool);
    const receiver = await startReceiver();
    await seedEndpoint({ pool, project, secrets: new SecretBox([ENCRYPTION_KEY]) }, receiver.url, true);
    // A partition that is missing shows that the job has made it.
    const last = partitionAt(buckets, Date.now(), buckets.ahead).name;
    await pool.query(`drop table ${last}`);
    const api = await startApi(makeConfig(roles.applicationUrl), silent('api'));
    const telemetry = silent('sweeper');
    const sweeper = await startSweeper(makeConfig(roles.applicationUrl), telemetry);
    try {
      // Short, so that an outage that a slow machine makes moves the deadline by seconds.
      const configuration = { interval_seconds: 1, grace_seconds: 1 };
      await seedMonitor(pool, project, { configuration, ...dueAt((await readNow(pool)) + 1_000) });
      await waitFor(() => receiver.requests.length > 0, { what: 'the alert' });
      await waitFor(async () => (await partitionsOf('observation_buckets')).includes(last), {
        what: 'the job has made the partition',
      });
      expect(await telemetry.registry.metrics()).not.toMatch(/sweep_failures_total\{[^}]*\} [1-9]/);
    } finally {
      await Promise.all([sweeper.close(), api.close()]);
      await receiver.close();
    }
  });

  it('partitions are created, converted and dropped, and rows retired, by a role that may not change tables', async () => {
    const today = partitionAt(observations, Date.now());
    const old = partitionAt(observations, Date.now() - 40 * DAY_MS);
    await pool.query(`drop table ${today.name}`);
    await pool.query(
      `set role "${roles.owner}"; create table ${old.name} (like observations including all); reset role`,
    );
    const insertBeat = () =>
      application.query(
        `insert into observations (project_id, monitor_key, sequence, received_at, kind)
         values (gen_random_uuid(), gen_random_uuid(), 1, clock_timestamp(), 'success')`,
      );
    await insertBeat();
    await sweepPartitions(makeDeps());
    expect(await partitionsOf('observations')).toContain(today.name);
    const { rows } = await application.query('select count(*)::integer as count from observations_default');
    expect(rows).toEqual([{ count: 0 }]);
    const dropped = await pool.query('select to_regclass($1) as found', [old.name]);
    expect(dropped.rows).toEqual([{ found: null }]);
    // The new default partition too takes rows of this role, and gives them back.
    await pool.query(`drop table ${today.name}`);
    await insertBeat();
    await sweepPartitions(makeDeps());
    await application.query(
      `insert into beat_keys (project_id, monitor_key, key, answer, expires_at)
       values (gen_random_uuid(), gen_random_uuid(), 'old', '{}', now() - interval '1 second')`,
    );
    await sweepRetention(makeDeps());
    const kept = await application.query(`select from beat_keys where key = 'old'`);
    expect(kept.rowCount).toBe(0);
  });

  it.each([
    'create table mine (a integer)',
    'create table observations_20200101 partition of observations default',
    'create schema mine',
    `create function mine() returns void language sql as ''`,
    'create index mine on monitors (name)',
    'alter table monitors add column mine integer',
    'alter table observations detach partition observations_default',
    'alter table observations_default rename to mine',
    'drop table monitors',
    'drop table observations_default',
    'drop function drop_partition',
    'truncate monitors',
    'truncate observations_default',
    `insert into schema_migrations (version, name) values (99, 'mine')`,
    'delete from schema_migrations',
    'create role mine',
    'create database mine',
    `copy monitors to program 'true'`,
    `select pg_read_file('/etc/passwd')`,
  ])('the database refuses the role of api and sweeper: %s', async (statement) => {
    await expect(application.query(statement)).rejects.toMatchObject({ code: '42501' });
  });

  it.each([
    ['drop_partition', ['observations', 'observations_default']],
    ['drop_partition', ['observations', 'monitors']],
    ['drop_partition', ['observations', 'observation_buckets_202601']],
    ['drop_partition', ['monitors', 'monitors_20260101']],
    ['drop_partition', ['observations', 'observations_20260101 cascade']],
    ['drop_partition', ['observations', null]],
    ['drop_partition', [null, 'observations_20260101']],
    ['detach_partition', ['observations', 'observations_default']],
    ['add_partition', ['observations', 'mine']],
    ['add_partition', ['observations', 'observations_2020']],
    ['add_partition', ['observations', 'observations_202601']],
    ['add_partition', ['observations', 'observations_20260102_20260101']],
    ['constrain_default', ['observations', 'monitors']],
    ['validate_default', ['monitors', 'monitors_20260101']],
    ['release_default', ['observations', 'mine']],
    ['replace_default', ['observations', 'monitors']],
  ])('the function %s refuses what is no partition of a table of history: %j', async (name, values) => {
    const places = values.map((_, index) => `$${index + 1}`).join(', ');
    await expect(application.query(`select ${name}(${places})`, values)).rejects.toMatchObject({
      code: '22023',
    });
  });

  it('the directory is copied to a place by a role that may not change tables', async () => {
    const place = await openDatabaseFixture();
    try {
      const { projectId } = await seedProject(pool);
      await copyAll(application, { jurisdiction: 'eu', pool: place.pool });
      await application.query(`update projects set name = 'other' where project_id = $1`, [projectId]);
      await copyAll(application, { jurisdiction: 'eu', pool: place.pool });
      const { rows } = await place.pool.query('select name from projects where project_id = $1', [projectId]);
      expect(rows).toEqual([{ name: 'other' }]);
      await place.pool.query('update directory_copy set batch = gen_random_uuid()');
      await copyAll(application, { jurisdiction: 'eu', pool: place.pool });
    } finally {
      await place.close();
      await pool.query('delete from directory_places');
    }
  });

  it('the role of api and sweeper inserts rows whose key the database generates', async () => {
    const inserted =
      'insert into service_outages (from_ms, to_ms, told) values (1, 2, true) returning outage_id';
    expect((await application.query(inserted)).rowCount).toBe(1);
  });

  it('a temporary table of the same name is not what the functions change', async () => {
    const name = partitionAt(buckets, Date.now() - 390 * DAY_MS).name;
    const client = await application.connect();
    try {
      await client.query('create temporary table observation_buckets (like public.observation_buckets)');
      await client.query(`select add_partition('observation_buckets', $1)`, [name]);
      expect(await partitionsOf('observation_buckets')).toContain(name);
    } finally {
      client.release(true);
    }
  });
});

describe('the rights that migrate grants', () => {
  const grantsOf = async () => {
    const { rows } = await pool.query(
      `select relname, relacl::text, xmin::text from pg_class where relnamespace = 'public'::regnamespace order by 1`,
    );
    return rows;
  };

  it('migrate grants what is missing, once, also when several run at the same time', async () => {
    const before = await grantsOf();
    await pool.query(`revoke select on monitors from "${roles.application}"`);
    await pool.query(`revoke execute on function drop_partition from "${roles.application}"`);
    const env = { DATABASE_URL: roles.ownerUrl, DATABASE_APPLICATION_ROLE: roles.application };
    const results = await Promise.all([1, 2, 3].map(() => runRole(['migrate'], env)));
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array(3).fill({ code: 0, stderr: '' }),
    );
    const after = await grantsOf();
    const acls = (grants: { relname: string; relacl: string }[]) =>
      grants.map(({ relname, relacl }) => `${relname} ${relacl?.split(',').sort()}`);
    expect(acls(after).length).toBe(acls(before).length);
    await application.query('select from monitors limit 1');
    // Where nothing is missing no row of the catalog is written.
    await migrate({ databaseUrl: roles.ownerUrl, applicationRole: roles.application });
    expect(await grantsOf()).toEqual(after);
  });

  it('the role of api and sweeper in the database of a jurisdiction gets its rights there, and that of the default one none', async () => {
    const place = await openDatabaseFixture({ hasSchema: false });
    const role = `eu_${randomBytes(5).toString('hex')}`;
    await pool.query(`create role ${role}`);
    const run = (more: Record<string, string>) =>
      runRole(['migrate'], {
        DATABASE_URL: roles.ownerUrl,
        DATABASE_APPLICATION_ROLE: roles.application,
        JURISDICTION_EU_DATABASE_URL: place.databaseUrl,
        ...more,
      });
    const mayChange = async (name: string) => {
      const { rows } = await place.pool.query("select has_table_privilege($1, 'monitors', 'update') as may", [
        name,
      ]);
      return rows[0]?.may;
    };
    try {
      expect((await run({})).code).toBe(0);
      expect(await mayChange(role)).toBe(false);
      expect((await run({ JURISDICTION_EU_DATABASE_APPLICATION_ROLE: role })).code).toBe(0);
      expect(await mayChange(role)).toBe(true);
      expect(await mayChange(roles.application)).toBe(false);
    } finally {
      await place.close();
      await pool.query(`drop role ${role}`);
    }
  });

  it('a table that a later migration makes is granted as it is made', async () => {
    const owner = new pg.Client({ connectionString: roles.ownerUrl });
    await owner.connect();
    await owner.query('create table later (a integer)');
    await owner.end();
    await application.query('insert into later values (1)');
    await application.query('update later set a = 2');
    await application.query('delete from later');
  });

  it('nobody but the owner and the role of api and sweeper may call the functions or read the tables', async () => {
    const stranger = `stranger_${randomBytes(5).toString('hex')}`;
    await pool.query(`create role ${stranger}`);
    const { rows } = await pool.query(
      `select proname from pg_proc where pronamespace = 'public'::regnamespace and has_function_privilege($1, oid, 'execute')
       union all
       select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
         and has_table_privilege($1, oid, 'select')`,
      [stranger],
    );
    await pool.query(`drop role ${stranger}`);
    expect(rows).toEqual([]);
  });

  it('migrate names the role that does not exist, and the schema is migrated all the same', async () => {
    const empty = await openDatabaseFixture({ hasSchema: false });
    try {
      const env = { DATABASE_URL: empty.databaseUrl, DATABASE_APPLICATION_ROLE: 'nobody_of_this_name' };
      const { code, stderr } = await runRole(['migrate'], env);
      expect(code).toBe(1);
      expect(stderr).toBe(
        'beatkeeper migrate: The database has no role nobody_of_this_name: create it, or correct DATABASE_APPLICATION_ROLE.\n',
      );
      expect((await readNewestMigration(empty.pool)).version).toBeGreaterThan(0);
    } finally {
      await empty.close();
    }
  });
});
