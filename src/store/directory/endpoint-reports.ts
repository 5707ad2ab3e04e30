// What a place has found out of the endpoints that it has copies of, and the default database does not know: their last
// delivery, and that a receiver is gone (docs/adr/0013).
import { type EndpointRef, setLastDelivery } from '../callbacks/callback-endpoints.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface EndpointReport extends EndpointRef {
  /** As it is stored, as text. */
  lastDelivery: string | null;
  /** Set where the place has disabled it: its receiver is gone. */
  gone?: { reason: string; urlBox: Buffer | null };
  /** As text. */
  disabledAt: string | null;
}

interface ReportRow extends Omit<EndpointReport, 'gone'> {
  reason: string | null;
  urlBox: Buffer | null;
}

/** SQL: of the endpoint `e`, where a delivery has disabled it, and not a person. */
const GONE_AT = `case when e.lifecycle = 'disabled' and e.disabled_reason is not null then e.disabled_at end`;

/** In key order. A place has few endpoints, and reads them all. */
export async function findReports(place: Queryable, limit: number): Promise<EndpointReport[]> {
  const { rows } = await place.query<ReportRow>(
    `select e.project_id as "projectId", e.endpoint_id as "endpointId", e.last_delivery::text as "lastDelivery",
       (${GONE_AT})::text as "disabledAt", e.disabled_reason as reason, e.url_box as "urlBox"
     from callback_endpoints e
     left join directory_reports r on r.project_id = e.project_id and r.endpoint_id = e.endpoint_id
     where e.monitor_key is null and e.removed_at is null
       and (e.last_delivery is distinct from r.last_delivery or ${GONE_AT} is distinct from r.disabled_at)
     order by e.project_id, e.endpoint_id limit $1`,
    [limit],
  );
  return rows.map(({ reason, urlBox, ...report }) => ({
    ...report,
    gone: report.disabledAt !== null && reason !== null ? { reason, urlBox } : undefined,
  }));
}

/** Writes the last deliveries into the default database. An older one never replaces a newer one. */
export async function writeReportedDeliveries(
  tx: Queryable,
  reports: readonly EndpointReport[],
): Promise<void> {
  await tx.query(
    setLastDelivery(`(select * from unnest($1::uuid[], $2::text[], $3::text[]::jsonb[])
      as r (project_id, endpoint_id, last_delivery))`),
    columnsOf(reports),
  );
}

/** Notes in the place what the default database has. */
export async function recordReports(place: Queryable, reports: readonly EndpointReport[]): Promise<void> {
  await place.query(
    `insert into directory_reports (project_id, endpoint_id, last_delivery, disabled_at)
     select * from unnest($1::uuid[], $2::text[], $3::text[]::jsonb[], $4::timestamptz[])
     on conflict (project_id, endpoint_id) do update
       set last_delivery = excluded.last_delivery, disabled_at = excluded.disabled_at`,
    [...columnsOf(reports), reports.map(({ disabledAt }) => disabledAt)],
  );
}

function columnsOf(reports: readonly EndpointReport[]): unknown[] {
  return [
    reports.map(({ projectId }) => projectId),
    reports.map(({ endpointId }) => endpointId),
    reports.map(({ lastDelivery }) => lastDelivery),
  ];
}
