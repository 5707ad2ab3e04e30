// Publish addresses: the random UUIDs that beats are sent to. The beat path finds monitors by them.
import { UUID_PATTERN } from '../../domain/id.ts';
import { MONITOR_REF, type MonitorRef } from '../monitors/live.ts';
import { JOIN_TENANT, TENANT, type Tenant } from '../monitors/monitor-record.ts';
import { toWatchedMonitor, WATCHED_COLUMNS, type WatchedMonitor } from '../monitors/watched-monitor.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { isDistributed } from '../postgres/engine.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';
import { readShards } from '../postgres/shards.ts';

export async function insertPublishAddress(tx: Queryable, ref: MonitorRef, address: string): Promise<void> {
  await tx.query({
    name: 'insert-publish-address',
    text: 'insert into publish_addresses (address, project_id, monitor_key) values ($1, $2, $3)',
    values: [address, ref.projectId, ref.monitorKey],
  });
}

/**
 * Ends every working address of a monitor at `endsMs`, or at once. An address with an earlier end keeps it, so that a
 * rotation never makes a leaked address live longer. The caller has locked the live row.
 */
export async function endPublishAddresses(
  tx: Queryable,
  ref: MonitorRef,
  endsMs: number | undefined,
): Promise<void> {
  const keys = [ref.projectId, ref.monitorKey];
  if (endsMs === undefined) {
    await tx.query('delete from publish_addresses where project_id = $1 and monitor_key = $2', keys);
    return;
  }
  await tx.query(
    `update publish_addresses set ends_at = least(ends_at, ${fromMillis('$3')})
     where project_id = $1 and monitor_key = $2`,
    [...keys, endsMs],
  );
}

interface Address {
  address: string;
  /** Set on a rotated address: it works until then. */
  endsMs?: number;
}

export interface AddressRow extends Address, MonitorRef {}

/** An address and what its beats need to know of the monitor. */
export interface WatchedAddress extends Address {
  monitor: WatchedMonitor;
  /** Of its project, where the database has shards. */
  shard?: number;
}

const ADDRESS: Columns<Address> = {
  address: column.plain('address', 'uuid'),
  endsMs: column.moment('ends_at'),
};
const toAddress = rowReader(ADDRESS);
const ADDRESS_ROW: Columns<AddressRow> = { ...ADDRESS, ...MONITOR_REF };
const toAddressRow = rowReader(ADDRESS_ROW);

/**
 * Finds the monitors of publish addresses. The row of an address that has ended remains until the sweeper deletes it.
 */
export async function findAddresses(
  db: Queryable,
  addresses: readonly string[],
): Promise<Map<string, AddressRow>> {
  const { rows } = await db.query({
    name: 'find-addresses',
    text: `select ${sql.select(ADDRESS_ROW, 'a')} from publish_addresses a where a.address = any($1::uuid[])`,
    values: [addresses],
  });
  return new Map(rows.map(toAddressRow).map((row) => [row.address, row]));
}

const SELECT = `select ${sql.select(ADDRESS, 'a')}, ${WATCHED_COLUMNS} from publish_addresses a
  join monitors m on m.project_id = a.project_id and m.monitor_key = a.monitor_key ${JOIN_TENANT}`;

/** Finds addresses with their monitors in one statement. `minimumIntervalMs` as in `loadWatchedMonitors`. */
export async function findWatchedAddresses(
  db: Queryable,
  addresses: readonly string[],
  minimumIntervalMs: number,
): Promise<WatchedAddress[]> {
  const { rows } = await db.query<object>({
    name: 'find-watched-addresses',
    text: `${SELECT} where a.address = any($1::uuid[])`,
    values: [addresses.filter((address) => UUID_PATTERN.test(address))],
  });
  return await withShards(
    db,
    rows.map((row) => toWatchedAddress(row, minimumIntervalMs)),
  );
}

/** The next `limit` addresses by key, after that of the last page. */
export async function listWatchedAddresses(
  db: Queryable,
  page: { after?: string; limit: number },
  minimumIntervalMs: number,
): Promise<WatchedAddress[]> {
  const { rows } = await db.query<object>({
    name: 'list-watched-addresses',
    text: `${SELECT} where a.address > $1 order by a.address limit $2`,
    values: [page.after ?? NIL_UUID, page.limit],
  });
  return await withShards(
    db,
    rows.map((row) => toWatchedAddress(row, minimumIntervalMs)),
  );
}

async function withShards(db: Queryable, found: WatchedAddress[]): Promise<WatchedAddress[]> {
  if (!isDistributed()) return found;
  const shards = await readShards(
    db,
    found.map(({ monitor }) => monitor.projectId),
  );
  return found.map((address) => ({ ...address, shard: shards.get(address.monitor.projectId) }));
}

const TENANT_ROW: Columns<Tenant & { projectId: string }> = {
  projectId: column.computed('project_id', 'p.project_id'),
  ...TENANT,
};
const toTenantRow = rowReader(TENANT_ROW);

/** Finds projects with what their beats need to know of them and of their organizations. */
export async function findTenants(
  db: Queryable,
  projectIds: readonly string[],
): Promise<(Tenant & { projectId: string })[]> {
  const { rows } = await db.query<object>({
    name: 'find-tenants',
    text: `select ${sql.select(TENANT_ROW, 'p')} from projects p
      join organizations o on o.organization_id = p.organization_id where p.project_id = any($1::uuid[])`,
    values: [projectIds],
  });
  return rows.map(toTenantRow);
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000';

function toWatchedAddress(row: object, minimumIntervalMs: number): WatchedAddress {
  return { ...toAddress(row), monitor: toWatchedMonitor(row, minimumIntervalMs) };
}
