// Places the tables of a new database on the machines of a Citus cluster (docs/adr/0012). Run it in a transaction of the
// schema's owner on the coordinator.
import type { ClientBase } from 'pg';
import { COPY_TABLES } from '../directory/directory-tables.ts';

type Db = Pick<ClientBase, 'query'>;

/** On every machine: small, changed rarely, and joined with the rows of any project. */
export const REFERENCE_TABLES = [
  'organizations',
  'projects',
  'credential_addresses',
  'publish_addresses',
  'callback_endpoints',
  'relay_topics',
  'signing_secrets',
];

/** By the hash of a UUID. Rows of one project are on one machine, in all of these tables. */
export const DISTRIBUTED_TABLES: Readonly<Record<string, string>> = {
  monitor_live: 'project_id',
  monitors: 'project_id',
  monitor_changes: 'project_id',
  credentials: 'project_id',
  observations: 'project_id',
  observation_buckets: 'project_id',
  beat_keys: 'project_id',
  incidents: 'project_id',
  timeline_entries: 'project_id',
  endpoint_changes: 'project_id',
  deliveries: 'project_id',
  delivery_attempts: 'project_id',
  drafts: 'project_id',
  usage_counters: 'project_id',
  rate_windows: 'project_id',
  idempotency_records: 'scope_id',
  // A lane has a row in each shard that it writes to: its batch commits there, row and beats at once.
  ingest_lanes: 'lane_id',
  live_changes: 'shard_key',
};

/** Tables that no statement joins with rows of projects under a lock stay on the coordinator. */
export const COORDINATOR_TABLES = [
  'schema_migrations',
  'live_changes_floor',
  'observation_sums',
  'usage_count',
  'cancellations',
  'service_clock',
  'service_outages',
  'operator_signs',
  'operator_outages',
  'operator_causes',
  'caused_monitors',
  'cause_alerts',
  'operator_part_outages',
  'sweeper_leases',
  'billing_subscriptions',
  'billing_charges',
  'billing_disputes',
  'billing_events',
  'installation',
  ...COPY_TABLES,
];

/**
 * Triggers go: Citus distributes no table that has one. It has no databases of jurisdictions (docs/adr/0013), and who changes
 * a service state states `returned_at` and `suspended_at`.
 */
const TRIGGERS = `select format('drop trigger %I on %s', tgname, tgrelid::regclass) as statement
  from pg_trigger where tgfoid in ('queue_directory_row'::regproc, 'fill_directory_again'::regproc, 'note_service'::regproc)`;

/** Distributes what is not distributed yet. Throws where the database has no Citus. */
export async function distributeTables(db: Db): Promise<void> {
  const { rows } = await db.query<{ name: string }>(
    'select logicalrelid::text as name from pg_dist_partition',
  );
  const placed = new Set(rows.map(({ name }) => name));
  const { rows: triggers } = await db.query<{ statement: string }>(TRIGGERS);
  for (const { statement } of triggers) await db.query(statement);
  // Citus changes no row that a foreign key refers to once the transaction has asked several shards. Organizations are never
  // deleted.
  if (!placed.has('projects'))
    await db.query('alter table projects drop constraint projects_organization_id_fkey');
  for (const table of REFERENCE_TABLES) {
    if (!placed.has(table)) await db.query('select create_reference_table($1)', [table]);
  }
  if (!placed.has('live_changes'))
    await db.query('alter table live_changes add column shard_key uuid not null');
  for (const [table, column] of Object.entries(DISTRIBUTED_TABLES)) {
    if (placed.has(table)) continue;
    const colocated = table === 'monitor_live' ? 'default' : 'monitor_live';
    await db.query('select create_distributed_table($1, $2, colocate_with => $3)', [
      table,
      column,
      colocated,
    ]);
  }
}
