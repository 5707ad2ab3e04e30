// The addresses of several endpoints at once, sealed.
import type { Queryable } from '../postgres/pool.ts';

export interface EndpointAddress {
  endpointId: string;
  urlBox: Buffer;
}

/** Of endpoints of the project that are not removed and have an address, inline ones included. */
export async function findAddresses(
  db: Queryable,
  projectId: string,
  endpointIds: readonly string[],
): Promise<EndpointAddress[]> {
  const { rows } = await db.query<{ endpoint_id: string; url_box: Buffer }>({
    name: 'find-endpoint-addresses',
    text: `select endpoint_id, url_box from callback_endpoints
      where project_id = $1 and endpoint_id = any($2::text[]) and removed_at is null and url_box is not null`,
    values: [projectId, endpointIds],
  });
  return rows.map((row) => ({ endpointId: row.endpoint_id, urlBox: row.url_box }));
}
