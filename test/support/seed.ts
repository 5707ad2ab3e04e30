// Rows that suites and benchmarks below the API start from. Written by SQL, through no code under test.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import {
  digestOfSecret,
  formatCredential,
  newCredentialId,
  newCredentialSecret,
} from '../../src/service/tenancy/credential-token.ts';
import { placeOf, type SecretBox } from '../../src/store/postgres/secret-box.ts';
import { insertCredential } from '../../src/store/tenancy/credentials.ts';

export interface SeedProject {
  organizationId: string;
  projectId: string;
}

export interface SeedMonitor extends SeedProject {
  monitorKey: string;
  monitorId: string;
  address: string;
}

/** Replace the defaults; named as in the tables `monitors` and `monitor_live`. */
export interface SeedColumns {
  configuration?: Record<string, unknown>;
  live?: Record<string, unknown>;
}

type Db = Pick<pg.Pool, 'query'>;

/** Makes an organization with one project. */
export async function seedProject(db: Db, plan = 'scale'): Promise<SeedProject> {
  const organizationId = randomUUID();
  const projectId = randomUUID();
  await db.query('insert into organizations (organization_id, name, plan) values ($1, $2, $3)', [
    organizationId,
    `organization-${organizationId}`,
    plan,
  ]);
  await db.query(
    'insert into projects (project_id, organization_id, name, name_key) values ($1, $2, $3, $3)',
    [projectId, organizationId, `project-${projectId}`],
  );
  return { organizationId, projectId };
}

/** Makes active monitors with an interval and a grace of one minute, unless `columns` says otherwise. */
export async function seedMonitors(
  db: Db,
  project: SeedProject,
  count: number,
  columns: SeedColumns = {},
): Promise<SeedMonitor[]> {
  const seeded = Array.from({ length: count }, () => {
    const monitorKey = randomUUID();
    return {
      ...project,
      monitorKey,
      monitorId: `mon_${monitorKey.replaceAll('-', '')}`,
      address: randomUUID(),
    };
  });
  const configuration = { interval_seconds: 60, grace_seconds: 60, ...columns.configuration };
  await insertRows(
    db,
    'monitors',
    seeded.map((monitor) => ({
      project_id: monitor.projectId,
      monitor_key: monitor.monitorKey,
      monitor_id: monitor.monitorId,
      name: monitor.monitorId,
      name_key: monitor.monitorId,
      publish_address: monitor.address,
      jurisdiction: 'unrestricted',
      configuration_version: 1,
      labels: {},
      await_first_beat: true,
      recovery_beats: 1,
      missed_beats_to_open: 1,
      measurements: {},
      binding_kind: 'organization_default',
      lifecycle: 'active',
      created_at: new Date(),
      updated_at: new Date(),
      ...configuration,
    })),
  );
  await insertRows(
    db,
    'monitor_live',
    seeded.map((monitor, index) => ({
      project_id: monitor.projectId,
      monitor_key: monitor.monitorKey,
      sweep_bucket: index % 64,
      configuration_version: 1,
      last_sequence: 0,
      missed_count: 0,
      open_incidents: 0,
      gap_broken: false,
      changed_xid: '3',
      ...columns.live,
    })),
  );
  await insertRows(
    db,
    'publish_addresses',
    seeded.map(({ address, projectId, monitorKey }) => ({
      address,
      project_id: projectId,
      monitor_key: monitorKey,
    })),
  );
  return seeded;
}

/** Makes one monitor as `seedMonitors` does. */
export async function seedMonitor(
  db: Db,
  project: SeedProject,
  columns: SeedColumns = {},
): Promise<SeedMonitor> {
  const [monitor] = await seedMonitors(db, project, 1, columns);
  if (!monitor) throw new Error('no monitor was seeded');
  return monitor;
}

/** Columns of a monitor whose last beat came two minutes before `deadlineMs`, and which no sweep has woken since. */
export const dueAt = (deadlineMs: number) => ({
  live: {
    anchor_ms: deadlineMs - 120_000,
    last_beat_ms: deadlineMs - 120_000,
    deadline_ms: deadlineMs,
    wake_ms: deadlineMs,
  },
});

export interface SeedEndpoint {
  endpointId: string;
  secret: string;
}

/** Makes a webhook endpoint with one signing secret; its alias is its id. `isDefault`: it gets all monitors' alerts. */
export async function seedEndpoint(
  { pool, project, secrets }: { pool: Db; project: SeedProject; secrets: SecretBox },
  url: string,
  isDefault = false,
): Promise<SeedEndpoint> {
  const { projectId, organizationId } = project;
  const endpointId = `cb_${randomUUID().replaceAll('-', '')}`;
  const secret = newSigningSecret();
  await pool.query(
    `insert into callback_endpoints (project_id, endpoint_id, alias, kind, url_box) values ($1, $2, $2, 'webhook', $3)`,
    [projectId, endpointId, secrets.seal(url, placeOf(projectId, endpointId, 'url'))],
  );
  await pool.query(
    `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at) values ($1, $2, 1, $3, now())`,
    [projectId, endpointId, secrets.seal(secret, placeOf(projectId, endpointId, 'signing-secret'))],
  );
  if (isDefault) {
    await pool.query(
      'update organizations set default_project_id = $2, default_endpoint_id = $3 where organization_id = $1',
      [organizationId, projectId, endpointId],
    );
  }
  return { endpointId, secret };
}

/** Makes an API credential and returns it as a caller sends it. */
export async function seedCredential(
  db: Db,
  wanted: { projectId: string; preset: 'manage' | 'read'; scopes?: string[]; expiresMs?: number },
): Promise<string> {
  const token = { credentialId: newCredentialId(), secret: newCredentialSecret() };
  const { projectId, preset, scopes = [], expiresMs } = wanted;
  const { credentialId } = token;
  await insertCredential(db, {
    ...{ projectId, credentialId, name: preset, preset, scopes, expiresMs },
    digest: digestOfSecret(token.secret),
  });
  return formatCredential(token);
}

async function insertRows(db: Db, table: string, rows: Record<string, unknown>[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {});
  await db.query(
    `insert into ${table} (${columns.join(', ')})
     select ${columns.join(', ')} from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
    [JSON.stringify(rows)],
  );
}
