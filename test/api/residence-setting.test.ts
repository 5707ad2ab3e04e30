// An installation whose jurisdiction eu has a database of its own by JURISDICTION_EU_DATABASE_URL: `migrate`, `api` and
// `sweeper` as their commands start them, and their users.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { type AlertBody, type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts';
import { type RoleProcess, startRole } from '../support/role-process.ts';
import { runRole } from '../support/run-program.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts';
import { waitFor } from '../support/wait-for.ts';

const NAMES = ['default', 'eu'] as const;
type Name = (typeof NAMES)[number];
const JURISDICTION_IN: Record<Name, Jurisdiction> = { default: 'us', eu: 'eu' };

let databases: Record<Name, DatabaseFixture>;
let proxies: Record<Name, TcpProxy>;
let env: Record<string, string>;
let issuer: TokenIssuer;
let receiver: Receiver;
let api: RoleProcess;
let sweeper: RoleProcess;
let owner: ApiClient;

beforeAll(async () => {
  const [main, eu] = await Promise.all(NAMES.map(() => openDatabaseFixture({ hasSchema: false })));
  if (!main || !eu) throw new Error('There are no databases.');
  databases = { default: main, eu };
  proxies = { default: await TcpProxy.start(main.databaseUrl), eu: await TcpProxy.start(eu.databaseUrl) };
  [issuer, receiver] = await Promise.all([startTokenIssuer(), startReceiver()]);
  env = {
    DATABASE_URL: proxies.default.url,
    JURISDICTION_EU_DATABASE_URL: proxies.eu.url,
    BEATKEEPER_ENCRYPTION_KEYS: `${ENCRYPTION_KEY.id}:${ENCRYPTION_KEY.key.toString('base64')}`,
    BEATKEEPER_ORGANIZATION: 'acme',
    BEATKEEPER_ISSUERS: JSON.stringify([issuer.trusted({ organization: 'acme', roles: { ada: 'owner' } })]),
    BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS: '127.0.0.0/8',
    BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1',
  };
  expect(await runRole(['migrate'], env)).toMatchObject({ code: 0 });
  [api, sweeper] = await Promise.all([startRole('api', env), startRole('sweeper', env)]);
  const session = createApiClient({ url: api.url, token: await issuer.sign({ subject: 'ada' }) });
  const { body } = await session.expectSuccess('createProject', { body: { name: 'shop' } });
  owner = session.as(await issuer.sign({ subject: 'ada' }), body.projectId);
});
afterAll(async () => {
  await Promise.all([api?.close(), sweeper?.close()]);
  await Promise.all([receiver?.close(), issuer?.close()]);
  for (const name of NAMES) {
    await proxies?.[name].close();
    await databases?.[name].close();
  }
});

async function makeMonitor(name: Name, monitorId: string, seconds: number) {
  const { body } = await owner.expectSuccess('createMonitor', {
    body: {
      monitorId,
      name: monitorId,
      jurisdiction: JURISDICTION_IN[name],
      intervalSeconds: seconds,
      graceSeconds: seconds,
      callback: { kind: 'named', alias: 'pager' },
    },
  });
  return `${api.url}${new URL(body.publishUrl ?? '').pathname}`;
}

const beat = (address: string) => fetch(address, { method: 'POST' });

/** The tables of a database that have something of the monitors whose id begins so. */
async function tablesWith(pool: Pool, prefix: string): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select table_name as name from information_schema.columns
     where table_schema = 'public' and column_name = 'monitor_id'`,
  );
  const found: string[] = [];
  for (const { name: table } of rows) {
    const { rowCount } = await pool.query(`select from ${table} where monitor_id like $1`, [`${prefix}%`]);
    if (rowCount) found.push(table);
  }
  return found;
}

describe('an installation with a database for the jurisdiction eu', () => {
  it('is ready with both databases, which migrate has made, and shows the numbers of each', async () => {
    const ofBoth = { database: 'ok', schema: 'ok', database_eu: 'ok', schema_eu: 'ok' };
    for (const role of [api, sweeper])
      await waitFor(async () => (await role.readiness()).status === 'ok', { what: 'all is well' });
    expect((await api.readiness()).checks).toMatchObject(ofBoth);
    expect((await sweeper.readiness()).checks).toMatchObject({ ...ofBoth, sweep: 'ok', sweep_eu: 'ok' });
    const metrics = await (await fetch(`${sweeper.healthUrl}/metrics`)).text();
    for (const name of NAMES)
      expect(metrics).toContain(`beatkeeper_monitors_woken_total{database="${name}"}`);
  });

  it('keeps beats, incidents and signed alerts of each monitor in the database of its jurisdiction', async () => {
    const made = await owner.expectSuccess('createCallback', { body: { alias: 'pager', url: receiver.url } });
    const secret = made.body.signingSecret?.secret ?? '';
    for (const name of NAMES) {
      const address = await makeMonitor(name, `silent-${name}`, 1);
      expect((await beat(address)).status).toBe(200);
    }
    const alertOf = (monitorId: string) =>
      receiver.requests.find(({ body }) => {
        const { type, data } = JSON.parse(body) as AlertBody;
        return type === 'incident.opened' && data.monitor.monitorId === monitorId;
      });
    for (const name of NAMES) {
      const monitorId = `silent-${name}`;
      const alert = await waitFor(() => alertOf(monitorId), { what: `the alert of ${monitorId} is there` });
      const { data } = verifyWebhook(alert, secret) as AlertBody;
      const { body } = await owner.expectSuccess('listIncidents', { query: { monitorId } });
      expect(body.items.map(({ incidentId }) => incidentId)).toContain(data.incident.incidentId);
      const here = await tablesWith(databases[name].pool, monitorId);
      expect(here).toContain('monitors');
      const other = databases[name === 'eu' ? 'default' : 'eu'].pool;
      expect(await tablesWith(other, monitorId)).toEqual([]);
    }
    const counts = await Promise.all(
      NAMES.map(async (name) => {
        const { rows } = await databases[name].pool.query(
          `select (select count(distinct monitor_key)::integer from observations) as beats,
             (select count(distinct monitor_key)::integer from incidents) as incidents,
             (select count(distinct monitor_key)::integer from deliveries) as deliveries`,
        );
        return rows[0];
      }),
    );
    expect(counts).toEqual([1, 2].map(() => ({ beats: 1, incidents: 1, deliveries: 1 })));
  });

  it('goes on with the other database while one is away, and says which', async () => {
    const addresses = { default: '', eu: '' };
    for (const name of NAMES) {
      addresses[name] = await makeMonitor(name, `calm-${name}`, 86_400);
      expect((await beat(addresses[name])).status).toBe(200);
    }
    for (const away of NAMES) {
      const other = away === 'eu' ? 'default' : 'eu';
      await proxies[away].refuse();
      const check = away === 'eu' ? 'database_eu' : 'database';
      await waitFor(async () => (await api.readiness()).checks[check] === 'failing', {
        what: `${away} is away`,
      });
      expect(await api.readiness()).toMatchObject({ httpStatus: 200, status: 'degraded' });
      const isShown = async () => {
        const metrics = await (await fetch(`${api.healthUrl}/metrics`)).text();
        return metrics.includes(`beatkeeper_health_check_failing{check="${check}"} 1`);
      };
      await waitFor(isShown, { what: `the metrics show that ${away} is away` });
      expect((await beat(addresses[other])).status).toBe(200);
      const list = await owner.call('listMonitors');
      expect(list.problem).toMatchObject({
        status: 503,
        jurisdiction: away === 'eu' ? 'eu' : 'unrestricted',
      });
      expect((await beat(addresses[away])).status).toBe(503);
      await proxies[away].accept();
      await waitFor(async () => (await beat(addresses[away])).status === 200, { what: `${away} is back` });
      const isListed = async () => (await owner.call('listMonitors')).status === 200;
      await waitFor(isListed, { what: 'all monitors are listed again' });
    }
  });

  it('starts while the database of eu is away', async () => {
    await proxies.eu.refuse();
    try {
      const outcome = await runRole(['migrate'], env);
      expect(outcome.code).toBe(0);
      expect(outcome.stdout).toContain(
        'The database of this jurisdiction is not migrated: run migrate again.',
      );
      const late = await startRole('api', env);
      expect(await late.readiness()).toMatchObject({
        status: 'degraded',
        checks: { database: 'ok', database_eu: 'failing' },
      });
      await late.close();
    } finally {
      await proxies.eu.accept();
    }
  });
});

describe('the default database under a second address', () => {
  it('is no place: the sweeper says so, and no copy is made', async () => {
    const { pool, databaseUrl } = databases.default;
    const lines: string[] = [];
    const second = await startRole(
      'sweeper',
      { ...env, JURISDICTION_EU_DATABASE_URL: databaseUrl, BEATKEEPER_LOG_LEVEL: 'warn' },
      (line) => lines.push(line),
    );
    const sentence = 'has organizations of its own: it is the default database';
    await waitFor(() => lines.some((line) => line.includes(sentence)), { what: 'the sweeper refuses it' });
    expect((await pool.query('select from directory_copy')).rowCount).toBe(0);
    await second.close();
  });
});

describe('the start of each role', () => {
  it.each(['migrate', 'api', 'sweeper'])(
    '%s refuses one database for two, and shows no password',
    async (role) => {
      const refused = await runRole([role], { ...env, JURISDICTION_EU_DATABASE_URL: proxies.default.url });
      expect(refused.code).toBe(1);
      expect(refused.stderr).toContain('JURISDICTION_EU_DATABASE_URL names the database of DATABASE_URL');
      const { password } = new URL(proxies.default.url);
      if (password) expect(refused.stderr + refused.stdout).not.toContain(password);
    },
  );
});
