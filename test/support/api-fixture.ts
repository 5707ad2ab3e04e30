// The role `api` on a fresh database, listening on a free port: an organization with a project, credentials and
// sessions of every sort, and a second organization that must see nothing of the first.
import { randomBytes } from 'node:crypto';
import { type RunningApi, startApi } from '../../src/api/start-api.ts';
import { newUuid } from '../../src/domain/id.ts';
import type { PlanId } from '../../src/domain/problem.ts';
import {
  digestOfSecret,
  formatCredential,
  newCredentialId,
  newCredentialSecret,
} from '../../src/service/tenancy/credential-token.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { insertCredential } from '../../src/store/tenancy/credentials.ts';
import { insertOrganization } from '../../src/store/tenancy/organizations.ts';
import { insertProject } from '../../src/store/tenancy/projects.ts';
import { createTelemetry, type Telemetry } from '../../src/telemetry/telemetry.ts';
import { type ApiClient, createApiClient } from './api-client.ts';
import { createTestDatabase, openTestPool } from './database.ts';
import { startTokenIssuer, type TokenIssuer } from './token-issuer.ts';

export interface ApiFixtureOptions {
  plan?: PlanId;
  /** As in BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS; default: loopback. */
  allowedPrivateDestinations?: string;
  /** Default 60. */
  minimumIntervalSeconds?: number;
  /** Address of the database that the api is given, such as a proxy's. */
  databaseUrl?: (url: string) => Promise<string>;
  dashboardOrigin?: string;
  maxConnections?: number;
  /** Default 0: what a slow machine does to the tests is no load. */
  maxEventLoopDelayMs?: number;
}

export interface ApiFixture {
  url: string;
  databaseUrl: string;
  /** For looking into the database, and for arranging what no operation can. */
  pool: Pool;
  organizationId: string;
  projectId: string;
  projectName: string;
  /** Of the second organization, with a project of the same name. */
  other: { organizationId: string; projectId: string; owner: ApiClient; manage: ApiClient };
  tokens: {
    manage: string;
    read: string;
    owner: string;
    member: string;
    viewer: string;
    operator: string;
  };
  /** A client with a credential of preset manage. */
  manage: ApiClient;
  /** … of preset read. */
  read: ApiClient;
  /** Sessions that name the project. */
  owner: ApiClient;
  member: ApiClient;
  viewer: ApiClient;
  operator: ApiClient;
  /** Without any token. */
  anonymous: ApiClient;
  issuer: TokenIssuer;
  /** Opens what the api has sealed. */
  secrets: SecretBox;
  telemetry: Telemetry;
  /** One more api on the same database. */
  startReplica(): Promise<RunningApi & { url: string }>;
  close(): Promise<void>;
}

/** Starts it; call `close` in `afterAll`. */
export async function openApiFixture(options: ApiFixtureOptions = {}): Promise<ApiFixture> {
  const database = await createTestDatabase();
  const pool = openTestPool(database.url, 4);
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
  const encryptionKey = { id: 'test', key: randomBytes(32) };
  const telemetry = createTelemetry({ role: 'api', logLevel: process.env.TEST_LOG_LEVEL ?? 'silent' });
  const apiDatabaseUrl = (await options.databaseUrl?.(database.url)) ?? database.url;
  const start = (given: Telemetry) =>
    startApi(
      {
        databaseUrl: apiDatabaseUrl,
        databasePool: 6,
        // A database behind a proxy is one that fails: the limits are then what is tested.
        connectTimeoutMs: options.databaseUrl ? undefined : 60_000,
        encryptionKeys: [encryptionKey],
        allowedPrivateDestinations: options.allowedPrivateDestinations ?? '127.0.0.0/8,::1/128,localhost',
        publicUrl: 'http://127.0.0.1:8080',
        minimumIntervalSeconds: options.minimumIntervalSeconds ?? 60,
        host: '127.0.0.1',
        port: 0,
        issuers: [trusted],
        dashboardOrigin: options.dashboardOrigin,
        maxConnections: options.maxConnections ?? 10_000,
        maxEventLoopDelayMs: options.maxEventLoopDelayMs ?? 0,
      },
      given,
    );
  const api = await start(telemetry);
  const replicas: RunningApi[] = [];
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
    databaseUrl: database.url,
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
    secrets: new SecretBox([encryptionKey]),
    telemetry,
    async startReplica() {
      const replica = await start(createTelemetry({ role: 'api', logLevel: 'silent' }));
      replicas.push(replica);
      return { ...replica, url: `http://127.0.0.1:${replica.port}` };
    },
    async close() {
      await Promise.all([api, ...replicas].map((one) => one.close()));
      await issuer.close();
      await pool.end();
      await database.drop();
    },
  };
}

/** A test that stands still for some seconds is no outage of the service. */
async function forbidOutages(pool: Pool): Promise<void> {
  await pool.query(`
    create function leave_out() returns trigger language plpgsql as 'begin return null; end';
    create trigger no_outage before insert on service_outages for each row execute function leave_out();
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

/** An API credential, as a caller sends it. */
export async function seedCredential(
  pool: Pool,
  wanted: { projectId: string; preset: 'manage' | 'read'; scopes?: string[]; expiresAt?: Date },
): Promise<string> {
  const token = { credentialId: newCredentialId(), secret: newCredentialSecret() };
  const { projectId, preset, scopes = [], expiresAt } = wanted;
  const { credentialId } = token;
  await insertCredential(pool, {
    ...{ projectId, credentialId, name: preset, preset, scopes, expiresAt },
    digest: digestOfSecret(token.secret),
  });
  return formatCredential(token);
}
