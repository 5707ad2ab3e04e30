// Migrations since the version before this one: they only expand its schema, so that it works on the newer one.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listMigrations, migrate } from '../../src/store/postgres/migrate.ts';
import { extractFormerVersion, type FormerVersion } from '../e2e/former-version.ts';
import { findContractions, readSchema, type Schema } from '../support/contracted-schema.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { runRole } from '../support/run-program.ts';

const FOLDER = join('src', 'store', 'migrations');

/** What the version before does not use, and a migration may contract. As `findContractions` says it. */
const NO_LONGER_USED: readonly string[] = [];

let former: FormerVersion;
let database: DatabaseFixture;
let before: Schema;

beforeAll(async () => {
  former = await extractFormerVersion();
  database = await openDatabaseFixture({ hasSchema: false });
  const made = await runRole(['migrate'], { DATABASE_URL: database.databaseUrl }, former.folder);
  expect(made).toMatchObject({ code: 0, stderr: '' });
  before = await readSchema(database.pool);
});
afterAll(async () => {
  await database?.close();
  await former?.remove();
});

const formerNames = async () => (await readdir(join(former.folder, FOLDER))).sort();

it('a migration of the version before is as it was', async () => {
  for (const name of await formerNames()) {
    const path = join(FOLDER, name);
    expect(await readFile(path, 'utf8'), path).toBe(await readFile(join(former.folder, path), 'utf8'));
  }
});

it('those since then have one version, the next one, and a letter each: the version before accepts no later one', async () => {
  const known = new Set(await formerNames());
  const added = (await listMigrations()).filter(({ name }) => !known.has(name));
  const next = `000${known.size + 1}`.slice(-4);
  const letters = [...'abcdefghijklmnopqrstuvwxyz'].slice(0, added.length);
  expect(added.map(({ name }) => name.split('-')[0])).toEqual(letters.map((letter) => `${next}${letter}`));
});

it('they leave each column, constraint, index, trigger and function as it was, and ask nothing new of old statements', async () => {
  await migrate({ databaseUrl: database.databaseUrl });
  const after = await readSchema(database.pool);
  expect(before.columns.size).toBeGreaterThan(200);
  expect(before.objects.size).toBeGreaterThan(100);
  expect(findContractions(before, after)).toEqual(NO_LONGER_USED);
});

describe('a migration that contracts is found', () => {
  const CONTRACTIONS: Record<string, string> = {
    'alter table monitors drop column description': 'monitors.description is gone',
    'alter table monitors rename column description to about': 'monitors.description is gone',
    'alter table monitors alter column name type varchar(200)':
      'monitors.name was text not null default and is character varying(200) not null default',
    'alter table monitors alter column description set not null':
      'monitors.description was text default and is text not null default',
    'alter table monitors alter column labels drop default': 'monitors.labels was',
    'alter table monitors add column owner text not null': 'monitors.owner is new, text not null default,',
    'alter table monitors add check (length(name) > 3)': 'constraint monitors.monitors_name_check is new',
    'create unique index one_name on monitors (project_id, lower(name))': 'index one_name is new',
    'create table owned (project_id uuid references projects)':
      'constraint owned.owned_project_id_fkey is new',
    'drop index incidents_one_open': 'index incidents_one_open is gone',
    'drop table drafts cascade': 'drafts.draft_id is gone',
  };

  it.each(Object.entries(CONTRACTIONS))('%s', async (sql, sentence) => {
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      await client.query(sql);
      const found = findContractions(before, await readSchema(client));
      expect(found.join('\n')).toContain(sentence);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });

  it('a new table with demands of its own, a nullable column and an index are none', async () => {
    const client = await database.pool.connect();
    try {
      await client.query('begin');
      await client.query(`create table owners (owner_id uuid primary key, name text not null unique check (name <> ''));
        alter table monitors add column owner text check (owner <> ''), add column weight integer not null default 1;
        create index monitors_owner on monitors (project_id, owner);
        create table owned (project_id uuid references projects on delete cascade);
        create unique index monitors_weight on monitors (weight) where weight > 1`);
      expect(findContractions(before, await readSchema(client))).toEqual([]);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });
});
