// Deletes rows whose time is over, in bounded statements: each deletes at most `limit` rows and returns their number,
// so that the caller continues until there are fewer. Observations are dropped with their partitions.

import { DAY_MS, IDEMPOTENCY_HOURS, KEPT_DAYS } from '../../domain/retention.ts';
import type { MonitorRef } from '../monitors/live.ts';
import { deleteAged, findAge } from '../postgres/aged-rows.ts';
import { isDistributed } from '../postgres/engine.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction, readNow } from '../postgres/transaction.ts';
import { deleteOperatorOutages } from './operator-signs.ts';
import { deleteOutages } from './service-clock.ts';

const OUTAGES_KEPT_MS = KEPT_DAYS.serviceOutages * DAY_MS;

/** Deletes at most `limit`, on Citus about as many; returns how many. */
export type Retire = (db: Database, limit: number) => Promise<number>;

export interface RetentionRule {
  /** Named in metrics and in the log. */
  what: string;
  retire: Retire;
}

const NOW = 'clock_timestamp()';
/** SQL: the moment that long ago. */
const ago = (age: string) => `${NOW} - interval '${age}'`;

/** What depends on the rows to delete. */
interface Hanging {
  /** CTEs that delete it, by the columns `keys` of `gone`. */
  keys: string;
  ctes: string;
  /** On Citus: statements that delete it, by the age $1 of the rows. They come before the rows. */
  inShards: readonly string[];
}

const NOTHING: Hanging = { keys: '1', ctes: '', inShards: [] };

/** Deletes the rows of a table for which `where` holds, and in the same statement the rows that depend on them. */
const retireWhere =
  (table: string, where: string, { keys, ctes }: Hanging = NOTHING): Retire =>
  async (db, limit) => {
    const { rows } = await db.query<{ count: number }>(
      `with gone as (
         delete from ${table} where ctid = any (array(select ctid from ${table} where ${where} limit $1))
         returning ${keys})${ctes}
       select count(*)::integer as count from gone`,
      [limit],
    );
    return rows[0]?.count ?? 0;
  };

/** The same of rows whose `column` is before a moment, in all shards where the table has any. */
const retire = (table: string, column: string, before: string, hanging = NOTHING): Retire => {
  const ofTable = retireWhere(table, `${column} < ${before}`, hanging);
  const ofShards: Retire = async (db, limit) => {
    const age = await findAge(db, { table, column }, before, limit);
    return await inTransaction(db, async (tx) => {
      for (const statement of hanging.inShards) await tx.query(statement, [age]);
      return await deleteAged(tx, { table, column }, age);
    });
  };
  return async (db, limit) => await (isDistributed() ? ofShards : ofTable)(db, limit);
};

/** The address by which the api finds it. */
const ofCredential: Hanging = {
  keys: 'credential_id',
  ctes: `, addresses as (
    delete from credential_addresses a using gone where a.credential_id = gone.credential_id)`,
  inShards: [
    `delete from credential_addresses where credential_id in (
       select credential_id from credentials where revoked_at <= $1::timestamptz)`,
  ],
};

const ofDelivery: Hanging = {
  keys: 'project_id, delivery_id',
  ctes: `, attempts as (
    delete from delivery_attempts a using gone
    where a.project_id = gone.project_id and a.delivery_id = gone.delivery_id)`,
  inShards: [
    `delete from delivery_attempts a using deliveries d
     where a.project_id = d.project_id and a.delivery_id = d.delivery_id and d.ended_at <= $1::timestamptz`,
  ],
};

const ofIncident: Hanging = {
  keys: 'project_id, incident_id',
  ctes: `, entries as (
    delete from timeline_entries t using gone
    where t.project_id = gone.project_id and t.incident_id = gone.incident_id),
  sent as (
    delete from deliveries d using gone
    where d.project_id = gone.project_id and d.incident_id = gone.incident_id
    returning d.project_id, d.delivery_id),
  attempts as (
    delete from delivery_attempts a using sent
    where a.project_id = sent.project_id and a.delivery_id = sent.delivery_id)`,
  inShards: [
    `delete from delivery_attempts a using deliveries d, incidents i
     where a.project_id = d.project_id and a.delivery_id = d.delivery_id
       and d.project_id = i.project_id and d.incident_id = i.incident_id and i.monitor_deleted_at <= $1::timestamptz`,
    ...['deliveries', 'timeline_entries'].map(
      (table) => `delete from ${table} o using incidents i
        where o.project_id = i.project_id and o.incident_id = i.incident_id and i.monitor_deleted_at <= $1::timestamptz`,
    ),
  ],
};

/** They are few. */
const retireOutages: Retire = async (db) => {
  await deleteOutages(db, (await readNow(db)) - OUTAGES_KEPT_MS);
  return 0;
};
const retireOperatorOutages: Retire = async (db) => {
  await deleteOperatorOutages(db, (await readNow(db)) - OUTAGES_KEPT_MS);
  return 0;
};

/** What was kept of the alerts that named a cause. */
const ofCause: Hanging = {
  keys: 'cause_id',
  ctes: ', named as (delete from cause_alerts a using gone where a.cause_id = gone.cause_id)',
  inShards: [],
};
/** One that has ended is asked about until the monitors that it concerned have had their time. */
const CAUSE_ENDED = `ended_ms < ${NOW_MS} - ${KEPT_DAYS.operatorCauses * DAY_MS}`;
const CAUSE_UNUSED = `${CAUSE_ENDED} and not exists (
  select from caused_monitors o where o.cause_id = operator_causes.cause_id)`;

const ENDED_LONG_AGO = `ended and seen_ms < ${NOW_MS} - 86400000
  and seen_ms < (select max(seen_ms) from service_clock)`;

/** In no order: none depends on another. Windows of the rate limit go into the usage (tenancy/rate-windows.ts). */
export const RETENTION_RULES: readonly RetentionRule[] = [
  {
    what: 'idempotency_records',
    retire: retire('idempotency_records', 'created_at', ago(`${IDEMPOTENCY_HOURS.calls} hours`)),
  },
  // docs/contract/callbacks.md: the overlap of a rotation (index signing_secrets_ended).
  {
    what: 'signing_secrets',
    retire: retire('signing_secrets', 'ends_at', NOW),
  },
  { what: 'beat_keys', retire: retire('beat_keys', 'expires_at', NOW) },
  {
    what: 'publish_addresses',
    retire: retire('publish_addresses', 'ends_at', NOW),
  },
  // A removed endpoint's changes can be read for 30 days (docs/contract/callbacks.md).
  { what: 'endpoint_changes', retire: retire('endpoint_changes', 'expires_at', NOW) },
  // Without the row of its lane an api cannot find out whether a batch was committed: it must have ended by then.
  { what: 'ingest_lanes', retire: retire('ingest_lanes', 'updated_at', ago('30 days')) },
  { what: 'service_outages', retire: retireOutages },
  { what: 'operator_outages', retire: retireOperatorOutages },
  { what: 'caused_monitors', retire: retireWhere('caused_monitors', CAUSE_ENDED) },
  { what: 'operator_causes', retire: retireWhere('operator_causes', CAUSE_UNUSED, ofCause) },
  // No call takes so long that it might still use one (docs/adr/0013).
  { what: 'used_reservations', retire: retire('used_reservations', 'used_at', ago('1 day')) },
  // The newest row says when the last api ended.
  { what: 'service_clock', retire: retireWhere('service_clock', ENDED_LONG_AGO) },
  // A revoked credential can be read for 30 days (docs/contract/tenancy.md).
  {
    what: 'credentials',
    retire: retire('credentials', 'revoked_at', ago(`${KEPT_DAYS.revokedCredentials} days`), ofCredential),
  },
  // Closed drafts of rules (index drafts_closed). A deleted monitor takes its drafts along.
  { what: 'drafts', retire: retire('drafts', 'closed_at', ago(`${KEPT_DAYS.closedDrafts} days`)) },
  // The ids of events that were applied (docs/contract/organization.md).
  {
    what: 'billing_events',
    retire: retire('billing_events', 'received_at', ago(`${KEPT_DAYS.billingEvents} days`)),
  },
  {
    what: 'billing_charges',
    retire: retire('billing_charges', 'received_at', ago(`${KEPT_DAYS.billingCharges} days`)),
  },
  // They are few.
  {
    what: 'billing_disputes',
    retire: retire('billing_disputes', 'said_at', ago(`${KEPT_DAYS.billingCharges} days`)),
  },
  // Deliveries of deleted monitors have ended: the deletion cancels them.
  {
    what: 'deliveries',
    retire: retire('deliveries', 'ended_at', ago(`${KEPT_DAYS.deliveries} days`), ofDelivery),
  },
  // Incidents of deleted monitors, with the rows that depend on them. Incidents of existing monitors stay.
  {
    what: 'incidents',
    retire: retire('incidents', 'monitor_deleted_at', ago(`${KEPT_DAYS.incidents} days`), ofIncident),
  },
];

/** Archived monitors that can no longer be restored, the oldest first (index monitors_restorable). */
export async function findExpiredMonitors(db: Queryable, limit: number): Promise<MonitorRef[]> {
  const { rows } = await db.query<{ project_id: string; monitor_key: string }>(
    `select project_id, monitor_key from monitors
     where restorable_until is not null and restorable_until <= clock_timestamp()
     order by restorable_until limit $1`,
    [limit],
  );
  return rows.map((row) => ({ projectId: row.project_id, monitorKey: row.monitor_key }));
}
