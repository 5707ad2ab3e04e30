// What queues a line for the databases of jurisdictions, whoever changes the directory: the triggers of its tables.
import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isCopied } from '../../src/store/directory/copy-directory.ts';
import { DIRECTORY_TABLES } from '../../src/store/directory/directory-tables.ts';
import { listMigrations } from '../../src/store/postgres/migrate.ts';
import { openDatabaseFixture } from '../support/database-fixture.ts';
import {
  copyAll,
  type DirectoryFixture,
  openDirectoryFixture,
  readDirectory,
} from '../support/directory-fixture.ts';
import { seedCredential, seedProject } from '../support/seed.ts';

const TRIGGERS = `select from pg_trigger where not tgisinternal and tgname like 'directory%'`;
const MIGRATION = 3;

describe('the migration of the directory', () => {
  const openBefore = async () => {
    const fixture = await openDatabaseFixture({ hasSchema: false });
    await fixture.pool.query('create table schema_migrations (version integer, name text)');
    for (const { version, name } of await listMigrations()) {
      const sql = await readFile(new URL(`../../src/store/migrations/${name}`, import.meta.url), 'utf8');
      if (version === MIGRATION) return { ...fixture, apply: () => fixture.pool.query(sql) };
      await fixture.pool.query(sql);
    }
    throw new Error('There is no such migration.');
  };

  it('brings tables and triggers at once to a database that has neither', async () => {
    const { pool, apply, close } = await openBefore();
    await seedProject(pool);
    await apply();
    await seedProject(pool);
    expect((await pool.query(TRIGGERS)).rowCount).toBe(2 * DIRECTORY_TABLES.length);
    expect((await pool.query('select from projects')).rowCount).toBe(2);
    await close();
  });

  it('makes no trigger where the tables are distributed already: Citus would refuse it', async () => {
    const { pool, apply, close } = await openBefore();
    await pool.query('alter table live_changes add column shard_key uuid not null');
    await apply();
    expect((await pool.query(TRIGGERS)).rowCount).toBe(0);
    await close();
  });
});

describe('triggers of the directory', () => {
  let fixture: DirectoryFixture;

  beforeEach(async () => {
    fixture = await openDirectoryFixture();
  });
  afterEach(() => fixture?.close());

  it.each(DIRECTORY_TABLES)('of $name see each column that is copied, and no other', async (table) => {
    const { rows } = await fixture.source.query<{ watched: string[] | null; columns: string[] }>(
      `select (select array_agg(attname::text order by attname) from pg_attribute
           where attrelid = tgrelid and attnum = any (tgattr)) as watched,
         (select array_agg(attname::text order by attname) from pg_attribute
           where attrelid = tgrelid and attnum > 0 and not attisdropped and attgenerated = ''
             and attname <> all ($2) and attname <> 'monitor_key') as columns
       from pg_trigger where tgrelid = $1::regclass and tgname = 'directory'`,
      [table.name, [...Object.keys(table.key), ...table.left]],
    );
    // No columns: a change of any of them queues a line. A table with columns that are not copied has to name the others.
    const watched = rows[0]?.watched ?? (table.left.length === 0 ? rows[0]?.columns : []);
    expect(watched).toEqual(rows[0]?.columns);
  });

  it('see TRUNCATE: a place loses what the directory has no more', async () => {
    const { source, place } = fixture;
    const { projectId } = await seedProject(source);
    await seedCredential(source, { projectId, preset: 'manage' });
    await copyAll(source, place);
    expect((await readDirectory(place.pool)).credentials).toHaveLength(1);
    await source.query('truncate credentials, credential_addresses');
    expect(await isCopied(source, place)).toBe(false);
    await copyAll(source, place);
    const copied = await readDirectory(place.pool);
    expect(copied).toEqual(await readDirectory(source));
    expect(copied).toMatchObject({ credentials: [], projects: { length: 1 } });
  });

  it('see TRUNCATE: what a copier has read before it is older than the lines that wait', async () => {
    const { source, place } = fixture;
    const { projectId } = await seedProject(source);
    await copyAll(source, place);
    await seedCredential(source, { projectId, preset: 'manage' });
    const numbers = async () => {
      const { rows } = await source.query<{ table_name: string; number: number }>(
        `select table_name, number from directory_changes where table_name like 'credential%' order by 1`,
      );
      return rows.map(({ number }) => number);
    };
    const before = await numbers();
    await source.query('truncate credentials, credential_addresses');
    const after = await numbers();
    expect(after).toHaveLength(2);
    for (const number of after) expect(number).toBeGreaterThan(Math.max(...before));
  });
});
