// Which object of the cluster an endpoint stands for (docs/contract/callbacks.md). The api lets the operator alone in here.
import { isDeepStrictEqual } from 'node:util';
import {
  type EndpointOrigin,
  isSameObject,
  isSameOrigin,
  nameOfOrigin,
  withOwnedFields,
} from '../../domain/origin.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import {
  type EndpointRef,
  type EndpointRow,
  findEndpoint,
  findEndpointOfOrigin,
  lockEndpoint,
  updateEndpoint,
} from '../../store/callbacks/callback-endpoints.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller } from '../calls/context.ts';
import { recordEndpointChange } from './endpoint-history.ts';

export interface EndpointOriginChange {
  caller: Caller;
  endpointId: string;
  /** Undefined: no object declares the endpoint any more. */
  origin: EndpointOrigin | undefined;
}

/**
 * Sets the origin, and takes it from the endpoint of the project that has it. The same object again only adds its
 * owned fields. Throws `not_found`.
 */
export async function setEndpointOrigin(
  tx: Queryable,
  { caller, endpointId, origin }: EndpointOriginChange,
  nowMs: number,
): Promise<{ endpoint: EndpointRow; hasChanged: boolean }> {
  const ref: EndpointRef = { projectId: caller.projectId, endpointId };
  const holderId = origin && (await findEndpointOfOrigin(tx, ref.projectId, origin));
  const locked = new Map<string, EndpointRow | undefined>();
  // Always in one order, so that two calls never wait for each other.
  for (const id of [...new Set([endpointId, holderId ?? endpointId])].sort())
    locked.set(id, await lockEndpoint(tx, { ...ref, endpointId: id }));

  const endpoint = locked.get(endpointId);
  if (!endpoint || endpoint.monitorKey !== undefined) throw notFound();
  if (isSameObject(endpoint.origin, origin))
    return { endpoint: await addOwnedFields(tx, endpoint, origin), hasChanged: false };
  const holder = holderId === endpointId ? undefined : locked.get(holderId ?? '');
  if (origin && holder && isSameOrigin(holder.origin, origin))
    await writeOrigin(tx, { endpoint: holder, caller, origin: undefined }, nowMs);
  const declared = origin && withOwnedFields(origin, endpoint.origin);
  await writeOrigin(tx, { endpoint, caller, origin: declared }, nowMs);
  const changed = await findEndpoint(tx, ref);
  if (!changed) throw notFound();
  return { endpoint: changed, hasChanged: true };
}

/** That an object has set more fields is no change of the endpoint. */
async function addOwnedFields(
  tx: Queryable,
  endpoint: EndpointRow,
  stated: EndpointOrigin | undefined,
): Promise<EndpointRow> {
  const { origin: before } = endpoint;
  if (before === undefined || stated?.ownedFields === undefined) return endpoint;
  if (isDeepStrictEqual(before.ownedFields, stated.ownedFields)) return endpoint;
  const changed = { ...endpoint, origin: { ...before, ownedFields: stated.ownedFields } };
  await updateEndpoint(tx, endpoint, changed);
  return changed;
}

async function writeOrigin(
  tx: Queryable,
  { endpoint, caller, origin }: Omit<EndpointOriginChange, 'endpointId'> & { endpoint: EndpointRow },
  nowMs: number,
): Promise<void> {
  const next = { ...endpoint, origin, generation: endpoint.generation + 1, updatedMs: nowMs };
  await updateEndpoint(tx, endpoint, next);
  const change = { kind: 'configuration', action: 'update' } as const;
  await recordEndpointChange(tx, next, { change, by: caller }, nowMs);
}

/** Throws `origin_taken`, but for the endpoint itself: a creation that is repeated is another conflict. */
export async function refuseTakenOrigin(
  db: Queryable,
  { projectId, endpointId }: EndpointRef,
  origin: EndpointOrigin,
): Promise<void> {
  const holderId = await findEndpointOfOrigin(db, projectId, origin);
  if (holderId === undefined || holderId === endpointId) return;
  throw new ProblemError('origin_taken', {
    detail: `The callback endpoint ${holderId} has the origin ${nameOfOrigin(origin)}: set its origin to take it over.`,
    holder: { endpointId: holderId },
  });
}
