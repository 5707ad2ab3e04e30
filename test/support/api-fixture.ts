// The role `api` on a new database and a free port: an organization with a project, credentials and sessions of every
// role, and a second organization that must see nothing of the first.
import { type ApiConfig, type RunningApi, startApi } from '../../src/api/start-api.ts';
import { newUuid } from '../../src/domain/id.ts';
import type { PlanId } from '../../src/domain/problem.ts';
import { isDistributed } from '../../src/store/postgres/engine.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { insertOrganization } from '../../src/store/tenancy/organizations.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { type HealthServer, startHealthServer } from '../../src/telemetry/health-server.ts';
import type { Log } from '../../src/telemetry/log.ts';
import { createTelemetry, type Telemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiClient, createApiClient } from './api-client.ts';
import { openDatabaseFixture } from './database-fixture.ts';
import { ENCRYPTION_KEY, makeConfig } from './make-config.ts';
import { seedCredential } from './seed.ts';
import { startTokenIssuer, type TokenIssuer } from './token-issuer.ts';

export interface ApiFixtureOptions {
  plan?: PlanId;
  /** Turns the address of the database into the one that the api gets, such as a proxy's. */
  databaseUrl?: (url: string) => Promise<string>;
  /** Replaces values of `makeConfig`. */
  config?: Partial<ApiConfig>;
  /** The log of the api, but not of replicas. Default: silent. */
  log?: Log;
}

export interface ApiFixture {
  url: string;
  /** Where its health and metrics are. */
  healthUrl: string;
  databaseUrl: string;
  /** For the test's own queries, and to arrange what no operation can. */
  pool: Pool;
  organizationId: string;
  projectId: string;
  projectName: string;
  /** The second organization, with a project of the same name. */
  other: { organizationId: string; projectId: string; owner: ApiClient; manage: ApiClient };
  tokens: {
    manage: string;
    read: string;
    owner: string;
    member: string;
    viewer: string;
    operator: string;
  };
  /** With a credential of preset manage. */
  manage: ApiClient;
  /** With a credential of preset read. */
  read: ApiClient;
  /** With sessions of these roles, which name the project. */
  owner: ApiClient;
  member: ApiClient;
  viewer: ApiClient;
  operator: ApiClient;
  /** Without a token. */
  anonymous: ApiClient;
  issuer: TokenIssuer;
  /** Opens what the api sealed. */
  secrets: SecretBox;
  telemetry: Telemetry;
  /** Starts one more api on the same database. */
  startReplica(config?: Partial<ApiConfig>): Promise<RunningApi & { url: string; healthUrl: string }>;
  close(): Promise<void>;
}

/** Call `close` in `afterAll`. */
export async function openApiFixture(options: ApiFixtureOptions = {}): Promise<ApiFixture> {
  const database = await openDatabaseFixture();
  const { databaseUrl, pool } = database;
  await forbidOutages(pool);
  const issuer = await startTokenIssuer();
  const plan = options.plan ?? 'scale';
  const projectName = 'main';
  const own = await seed(pool, { organization: 'acme', projectName, plan });
  const foreign = await seed(pool, { organization: 'umbrella', projectName, plan });
  const trusted = issuer.trusted({
    organization: 'acme',
    organizationClaim: 'org',
    roleClaim: 'role',
    roles: { viewer: 'viewer', member: 'member', owner: 'owner', operator: 'operator' },
  });
  const created = createTelemetry({ role: 'api', logLevel: process.env.TEST_LOG_LEVEL ?? 'silent' });
  const telemetry = { ...created, log: options.log ?? created.log };
  const apiDatabaseUrl = (await options.databaseUrl?.(databaseUrl)) ?? databaseUrl;
  const start = (given: Telemetry, more: Partial<ApiConfig> = {}) =>
    startApi(
      makeConfig(apiDatabaseUrl, {
        // Tests put a database behind a proxy to let it fail: they test the product's own limit.
        connectTimeoutMs: options.databaseUrl ? undefined : 60_000,
        issuers: [trusted],
        ...options.config,
        ...more,
      }),
      given,
    );
  const api = await start(telemetry);
  const replicas: RunningApi[] = [];
  const healthServers: HealthServer[] = [];
  const serveHealth = async (given: Telemetry) => {
    const server = await startHealthServer({ host: '127.0.0.1', port: 0 }, given);
    healthServers.push(server);
    return `http://127.0.0.1:${server.port}`;
  };
  const url = `http://127.0.0.1:${api.port}`;
  const session = (role: string, org = 'acme') =>
    issuer.sign({ subject: `${role}@${org}`, claims: { role, org, name: `${role} of ${org}` } });
  const tokens = {
    manage: own.manage,
    read: own.read,
    owner: await session('owner'),
    member: await session('member'),
    viewer: await session('viewer'),
    operator: await session('operator'),
  };
  const client = (token?: string, project?: string) => createApiClient({ url, token, project });
  return {
    url,
    healthUrl: await serveHealth(telemetry),
    databaseUrl,
    pool,
    organizationId: own.organizationId,
    projectId: own.projectId,
    projectName,
    other: {
      organizationId: foreign.organizationId,
      projectId: foreign.projectId,
      owner: client(await session('owner', 'umbrella'), projectName),
      manage: client(foreign.manage),
    },
    tokens,
    manage: client(tokens.manage),
    read: client(tokens.read),
    owner: client(tokens.owner, projectName),
    member: client(tokens.member, projectName),
    viewer: client(tokens.viewer, projectName),
    operator: client(tokens.operator, projectName),
    anonymous: client(),
    issuer,
    secrets: new SecretBox([ENCRYPTION_KEY]),
    telemetry,
    async startReplica(config = {}) {
      const own = createTelemetry({ role: 'api', logLevel: 'silent' });
      const replica = await start(own, config);
      replicas.push(replica);
      const scheme = config.tlsFolder === undefined ? 'http' : 'https';
      return { ...replica, url: `${scheme}://127.0.0.1:${replica.port}`, healthUrl: await serveHealth(own) };
    },
    async close() {
      await Promise.all([api, ...replicas].map((one) => one.close()));
      await Promise.all(healthServers.map((one) => one.close()));
      await issuer.close();
      await database.close();
    },
  };
}

/** Keeps a test that stops for some seconds from looking like an outage of the service. */
export async function forbidOutages(pool: Pool): Promise<void> {
  await pool.query(`
    create function leave_out() returns trigger language plpgsql as 'begin return null; end';
    create trigger no_outage before insert on service_outages for each row execute function leave_out()`);
  // Citus has no triggers on distributed tables. Without an outage there is no entry of one.
  if (isDistributed()) return;
  await pool.query(`
    create trigger no_outage before insert on timeline_entries for each row when (new.type = 'service_outage')
      execute function leave_out()`);
}

interface Seeded {
  organizationId: string;
  projectId: string;
  manage: string;
  read: string;
}

async function seed(
  pool: Pool,
  { organization, projectName, plan }: { organization: string; projectName: string; plan: PlanId },
): Promise<Seeded> {
  const { organizationId } = await insertOrganization(pool, {
    organizationId: newUuid(),
    name: organization,
    plan,
  });
  const { projectId } = await insertProject(pool, {
    projectId: newUuid(),
    organizationId,
    name: projectName,
  });
  return {
    organizationId,
    projectId,
    manage: await seedCredential(pool, { projectId, preset: 'manage' }),
    read: await seedCredential(pool, { projectId, preset: 'read' }),
  };
}
