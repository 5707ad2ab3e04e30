// Callback endpoints: reads, create and remove (docs/contract/callbacks.md).
// Changes of one endpoint are in callback-changes.ts; endpoints of inline bindings are in inline-endpoints.ts.
import { checkDestination } from '../../delivery/webhook/destination.ts';
import type { EndpointKind, RelayDestination } from '../../domain/callback.ts';
import { newId } from '../../domain/id.ts';
import type { EndpointOrigin } from '../../domain/origin.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import {
  type EndpointRef,
  type EndpointRow,
  findEndpoint,
  insertEndpoint,
  lockEndpoint,
  removeEndpoint,
} from '../../store/callbacks/callback-endpoints.ts';
import { expireEndpointChanges } from '../../store/callbacks/endpoint-changes.ts';
import { deleteSigningSecrets } from '../../store/callbacks/signing-secrets.ts';
import { cancelDeliveriesTo } from '../../store/deliveries/cancellations.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { type AtTheEnd, requireVersion } from '../calls/write.ts';
import { countEndpoint, uncountEndpoint } from './endpoint-count.ts';
import { originOf, recordEndpointChange } from './endpoint-history.ts';
import { refuseTakenOrigin } from './endpoint-origin.ts';
import { type IssuedSecret, issueSecret, sealUrl } from './endpoint-seal.ts';
import { findRelayed, requireRelayFor } from './relay.ts';

/** An endpoint with the secret that was issued for it. */
export interface IssuedCallback {
  endpoint: EndpointRow;
  /** Of a webhook: the other kinds have none. */
  secret?: IssuedSecret;
}

/** An endpoint that people manage, or `not_found`: endpoints of inline bindings are changed through their monitors. */
export async function requireCallback(db: Queryable, ref: EndpointRef): Promise<EndpointRow> {
  return managed(await findEndpoint(db, ref));
}

/** As requireCallback, with the row locked until the transaction ends. */
export async function lockCallback(tx: Queryable, ref: EndpointRef): Promise<EndpointRow> {
  return managed(await lockEndpoint(tx, ref));
}

function managed(endpoint: EndpointRow | undefined): EndpointRow {
  if (!endpoint || endpoint.monitorKey !== undefined) throw notFound();
  return endpoint;
}

export interface CallbackInput {
  endpointId?: string;
  alias: string;
  kind: EndpointKind;
  url?: string;
  relay?: RelayDestination;
  relayGroup?: RelayDestination;
  /** Of the operator alone. */
  origin?: EndpointOrigin;
}

/**
 * Checks what must be known before the transaction: callbacks may go to the URL, or the relay has the notifier.
 * Throws `relay_not_configured`, `validation_failed`, `callback_destination_rejected`.
 */
export async function checkNewCallback(context: ServiceContext, input: CallbackInput): Promise<void> {
  if (input.kind === 'webhook') await checkDestination(input.url ?? '', context.destinations);
  else requireRelayFor(context, input);
}

/** Creates an endpoint, a webhook with its first secret. Throws `conflict`, `origin_taken`, `plan_limit_reached`. */
export async function createCallback(
  tx: Queryable,
  context: Pick<ServiceContext, 'secrets' | 'findPlan'>,
  { caller, input, atTheEnd }: { caller: Caller; input: CallbackInput; atTheEnd: AtTheEnd },
  nowMs: number,
): Promise<IssuedCallback> {
  const { secrets } = context;
  const ref: EndpointRef = { projectId: caller.projectId, endpointId: input.endpointId ?? newId('cb') };
  // First of all: the endpoint that has the origin has the alias as well.
  if (input.origin) await refuseTakenOrigin(tx, ref, input.origin);
  const relayed = await findRelayed(
    tx,
    { secrets },
    { ...input, organizationId: caller.organizationId },
    nowMs,
  );
  const inserted = await insertEndpoint(tx, {
    ...ref,
    alias: input.alias,
    kind: input.kind,
    urlBox: input.url === undefined ? undefined : sealUrl(secrets, ref, input.url),
    ...relayed,
    createdMs: nowMs,
    origin: input.origin,
  });
  if (inserted === 'origin_taken' && input.origin) await refuseTakenOrigin(tx, ref, input.origin);
  if (inserted === 'alias_taken') throw aliasTaken(input.alias);
  if (inserted === 'id_taken') {
    throw new ProblemError('conflict', {
      detail: `The endpointId ${ref.endpointId} was used before in this project: choose another, or leave it out.`,
      fieldErrors: [{ code: 'not_unique', message: 'Choose another endpointId.', path: 'endpointId' }],
    });
  }
  const secret = input.kind === 'webhook' ? await issueSecret(tx, secrets, ref, nowMs) : undefined;
  const endpoint = await requireCallback(tx, ref);
  const to = input.relay ?? input.relayGroup;
  const details = {
    alias: { to: input.alias },
    url: input.url ? { to: originOf(input.url) } : undefined,
    relay: to && { to },
  };
  const created = { change: { kind: 'configuration', action: 'create' }, details, by: caller } as const;
  await recordEndpointChange(tx, endpoint, created, nowMs);
  atTheEnd((last) => countEndpoint(last, context, caller.organizationId));
  return { endpoint, secret };
}

export function aliasTaken(alias: string): ProblemError {
  return new ProblemError('conflict', {
    detail: `Another callback endpoint of this project has the alias ${alias}: choose another one.`,
    fieldErrors: [{ code: 'not_unique', message: 'Choose another alias.', path: 'alias' }],
  });
}

/**
 * Removes an endpoint for good: secrets and address are erased, pending deliveries canceled, the alias is free.
 * Bindings to it report `endpoint_removed`. So does the organization's default until a new one is set, so its name
 * stays there.
 */
export async function removeCallback(
  tx: Queryable,
  { caller, endpointId, generation }: { caller: Caller; endpointId: string; generation: number },
  nowMs: number,
): Promise<void> {
  const ref: EndpointRef = { projectId: caller.projectId, endpointId };
  const endpoint = await lockCallback(tx, ref);
  requireVersion({ version: endpoint.generation }, generation);
  await removeEndpoint(tx, ref, nowMs);
  const change = { kind: 'lifecycle', action: 'remove', from: endpoint.lifecycle, to: 'removed' } as const;
  const removed = { ...endpoint, generation: endpoint.generation + 1 };
  await recordEndpointChange(tx, removed, { change, by: caller }, nowMs);
  await expireEndpointChanges(tx, ref);
  await deleteSigningSecrets(tx, ref);
  const why = { reason: 'endpoint_removed', actor: caller.actor } as const;
  await cancelDeliveriesTo(tx, ref, why, await readNow(tx));
  await uncountEndpoint(tx, caller.organizationId);
}
