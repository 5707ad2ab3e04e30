import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest';
import { findFreePort } from '../support/free-port.ts';
import { runRole } from '../support/run-role.ts';

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

describe('the command migrate', () => {
  let url: string;

  beforeEach(async () => {
    const name = `${inject('postgresPrefix')}_${randomBytes(6).toString('hex')}`;
    await query(inject('postgresAdminUrl'), `create database ${name}`);
    const address = new URL(inject('postgresAdminUrl'));
    address.pathname = `/${name}`;
    url = address.href;
  });
  afterEach(async () => {
    const name = new URL(url).pathname.slice(1);
    await query(inject('postgresAdminUrl'), `drop database if exists ${name} with (force)`);
  });

  test('brings an empty database up to date and makes the organization, also three times at once', async () => {
    const env = { DATABASE_URL: url, BEATKEEPER_ORGANIZATION: 'acme' };
    const results = await Promise.all([1, 2, 3].map(() => runRole(['migrate'], env)));
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array(3).fill({ code: 0, stderr: '' }),
    );
    expect(await query(url, 'select name, plan from organizations')).toEqual([
      { name: 'acme', plan: 'scale' },
    ]);
  });

  test('run again with another plan it moves the organization to it and changes nothing else', async () => {
    await runRole(['migrate'], { DATABASE_URL: url });
    const before = await query(url, 'select organization_id, name from organizations');
    expect((await runRole(['migrate'], { DATABASE_URL: url, BEATKEEPER_PLAN: 'builder' })).code).toBe(0);
    expect(await query(url, 'select organization_id, name from organizations')).toEqual(before);
    expect(await query(url, 'select plan from organizations')).toEqual([{ plan: 'builder' }]);
  });

  test('refuses a newer database in one sentence', async () => {
    await runRole(['migrate'], { DATABASE_URL: url });
    await query(url, "insert into schema_migrations (version, name) values (9999, '9999-future.sql')");
    const { code, stderr } = await runRole(['migrate'], { DATABASE_URL: url });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^beatkeeper migrate: The database has schema version 9999/);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  test('gives up on a database that does not answer, without its password in the words', async () => {
    const port = await findFreePort();
    const env = {
      DATABASE_URL: `postgres://user:hunter2@127.0.0.1:${port}/none`,
      BEATKEEPER_MIGRATE_WAIT_SECONDS: '0',
    };
    const { code, stdout, stderr } = await runRole(['migrate'], env);
    expect(code).toBe(1);
    expect(stderr).toContain('ECONNREFUSED');
    expect(stdout + stderr).not.toContain('hunter2');
  });
});
