// The role `migrate`, as a container runs it.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findFreePort } from '../../src/dev/processes/free-port.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { runRole } from '../support/run-program.ts';

describe('the command migrate', () => {
  let database: DatabaseFixture;
  let url: string;
  const query = async (sql: string) => (await database.pool.query(sql)).rows;

  beforeEach(async () => {
    database = await openDatabaseFixture({ hasSchema: false });
    url = database.databaseUrl;
  });
  afterEach(() => database?.close());

  test('migrate brings an empty database up to date and makes the organization, even when it runs three times at once', async () => {
    const env = { DATABASE_URL: url, BEATKEEPER_ORGANIZATION: 'acme' };
    const results = await Promise.all([1, 2, 3].map(() => runRole(['migrate'], env)));
    expect(results.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
      Array(3).fill({ code: 0, stderr: '' }),
    );
    expect(await query('select name, plan from organizations')).toEqual([{ name: 'acme', plan: 'scale' }]);
  });

  test('migrate with another plan moves the organization to that plan and changes nothing else', async () => {
    await runRole(['migrate'], { DATABASE_URL: url });
    const before = await query('select organization_id, name from organizations');
    expect((await runRole(['migrate'], { DATABASE_URL: url, BEATKEEPER_PLAN: 'builder' })).code).toBe(0);
    expect(await query('select organization_id, name from organizations')).toEqual(before);
    expect(await query('select plan from organizations')).toEqual([{ plan: 'builder' }]);
  });

  test('migrate leaves a plan that is paid for at Stripe, also after a time in which the values said it', async () => {
    const stripe = { DATABASE_URL: url, BILLING_SOURCE: 'stripe', BEATKEEPER_PLAN: 'free' };
    const standing = async () =>
      (await query('select plan, state_due_at <= clock_timestamp() as due from organizations'))[0];
    await runRole(['migrate'], stripe);
    expect(await standing()).toEqual({ plan: 'free', due: null });
    await query(`insert into billing_subscriptions
      (subscription_id, organization_id, status, plan, cancel_at_period_end, said_at, said_step)
      select 'sub_1', organization_id, 'incomplete_expired', 'smart', false, clock_timestamp(), 1 from organizations`);
    await runRole(['migrate'], { ...stripe, BEATKEEPER_PLAN: 'builder' });
    expect(await standing()).toEqual({ plan: 'builder', due: null });
    await query("update billing_subscriptions set status = 'active'");
    await query("update organizations set plan = 'smart'");
    await runRole(['migrate'], stripe);
    expect(await standing()).toEqual({ plan: 'smart', due: null });
    await query("update organizations set state_due_at = now() + interval '1 day'");
    await runRole(['migrate'], { ...stripe, BILLING_SOURCE: 'static' });
    expect(await standing()).toEqual({ plan: 'free', due: false });
    await runRole(['migrate'], stripe);
    expect(await standing()).toEqual({ plan: 'free', due: true });
  });

  test('migrate refuses a database with a newer schema in one sentence', async () => {
    await runRole(['migrate'], { DATABASE_URL: url });
    await query("insert into schema_migrations (version, name) values (9999, '9999-future.sql')");
    const { code, stderr } = await runRole(['migrate'], { DATABASE_URL: url });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^beatkeeper migrate: The database has schema version 9999/);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  test('migrate gives up on a database that does not answer, and prints no password', async () => {
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
