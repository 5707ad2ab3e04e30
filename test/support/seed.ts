// Rows that a suite starts from when it tests a room below the API. Written by SQL, through no code under test.
import { randomUUID } from 'node:crypto';
import type pg from 'pg';

export interface SeedProject {
  organizationId: string;
  projectId: string;
}

export interface SeedMonitor extends SeedProject {
  monitorKey: string;
  monitorId: string;
  address: string;
}

type Db = Pick<pg.Pool, 'query'>;

/** An organization with one project. */
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

/** Monitors with the columns of `configuration` (as in the table) and of `live` set over the defaults. */
export async function seedMonitors(
  db: Db,
  project: SeedProject,
  count: number,
  columns: { configuration?: Record<string, unknown>; live?: Record<string, unknown> } = {},
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
      outage_ms: 0,
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

export interface SeedEndpoint {
  endpointId: string;
  /** Sealed. */
  urlBox: Buffer;
  secretBox: Buffer;
  /** The organization's default: all monitors' alerts go there. */
  isDefault?: boolean;
}

/** A webhook endpoint with one signing secret; its alias is its id. */
export async function seedEndpoint(db: Db, project: SeedProject, endpoint: SeedEndpoint): Promise<void> {
  const { projectId, organizationId } = project;
  const { endpointId, urlBox, secretBox } = endpoint;
  await db.query(
    `insert into callback_endpoints (project_id, endpoint_id, alias, kind, url_box) values ($1, $2, $2, 'webhook', $3)`,
    [projectId, endpointId, urlBox],
  );
  await db.query(
    `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at) values ($1, $2, 1, $3, now())`,
    [projectId, endpointId, secretBox],
  );
  if (!endpoint.isDefault) return;
  await db.query(
    'update organizations set default_project_id = $2, default_endpoint_id = $3 where organization_id = $1',
    [organizationId, projectId, endpointId],
  );
}

async function insertRows(db: Db, table: string, rows: Record<string, unknown>[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {});
  await db.query(
    `insert into ${table} (${columns.join(', ')})
     select ${columns.join(', ')} from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
    [JSON.stringify(rows)],
  );
}
