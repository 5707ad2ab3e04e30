// The change records of endpoints that people manage (docs/contract/callbacks.md). The endpoint of an inline binding has
// none: the records of its monitor tell of it.
import type { Actor } from '../../domain/incident.ts';
import type { EndpointRow } from '../../store/callbacks/callback-endpoints.ts';
import {
  type ChangeDetails,
  type EndpointChangeKind,
  insertEndpointChange,
} from '../../store/callbacks/endpoint-changes.ts';
import type { Queryable } from '../../store/postgres/pool.ts';

export interface EndpointChange {
  change: EndpointChangeKind;
  details?: ChangeDetails;
  /** Who, and by which call where one made it. */
  by: { actor: Actor; requestId?: string };
}

/** `endpoint` is as it is after the change, and locked. */
export async function recordEndpointChange(
  tx: Queryable,
  endpoint: Pick<EndpointRow, 'projectId' | 'endpointId' | 'generation' | 'monitorKey'>,
  { change, details = {}, by: { actor, requestId } }: EndpointChange,
  nowMs: number,
): Promise<void> {
  if (endpoint.monitorKey !== undefined) return;
  const { generation } = endpoint;
  const record = { change, details, generation, actor, occurredMs: nowMs, sourceRequestId: requestId };
  await insertEndpointChange(tx, endpoint, record);
}

/** What a record may say of an address. */
export const originOf = (url: string): string => new URL(url).origin;
