// Changes of one callback endpoint: update, lifecycle, rotation of its secret (docs/contract/callbacks.md).
// Each raises the generation, under the endpoint's lock, in the caller's transaction.
import { checkDestination } from '../../delivery/webhook/destination.ts';
import { DESTINATION_FIELD, type EndpointLifecycle, type RelayDestination } from '../../domain/callback.ts';
import { type Actor, SYSTEM_ACTOR } from '../../domain/incident.ts';
import { invalidField, ProblemError } from '../../domain/problem.ts';
import {
  type EndpointRef,
  type EndpointRow,
  type EndpointState,
  lockEndpoint,
  updateEndpoint,
} from '../../store/callbacks/callback-endpoints.ts';
import type { EndpointChangeKind } from '../../store/callbacks/endpoint-changes.ts';
import { cancelDeliveriesTo } from '../../store/deliveries/cancellations.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { requireVersion } from '../calls/write.ts';
import { aliasTaken, type IssuedCallback, lockCallback, requireCallback } from './callbacks.ts';
import { originOf, recordEndpointChange } from './endpoint-history.ts';
import { openKnownUrl, reissueSecret, sealUrl } from './endpoint-seal.ts';
import { findRelayed, relayMoveOf, requireRelayFor } from './relay.ts';

export interface CallbackPatch {
  lifecycle?: EndpointLifecycle;
  alias?: string;
  url?: string;
  relay?: RelayDestination;
  relayGroup?: RelayDestination;
}

/** Which endpoint, in which version, for which caller. */
export interface CallbackChange {
  caller: Caller;
  endpointId: string;
  /** From the caller's `If-Match`. */
  generation: number;
}

type Sealing = Pick<ServiceContext, 'secrets'>;

const refOf = ({ caller, endpointId }: CallbackChange): EndpointRef => ({
  projectId: caller.projectId,
  endpointId,
});

/**
 * Checks what must be known before the transaction. It reads the endpoint first, so that a stale change causes no DNS
 * query. Throws `not_found`, `precondition_failed`, `validation_failed`, `callback_destination_rejected`,
 * `relay_not_configured`.
 */
export async function checkCallbackPatch(
  db: Queryable,
  context: Pick<ServiceContext, 'destinations' | 'relay'>,
  change: CallbackChange,
  patch: CallbackPatch,
): Promise<void> {
  const endpoint = await requireCallback(db, refOf(change));
  requireVersion({ version: endpoint.generation }, change.generation);
  const own = DESTINATION_FIELD[endpoint.kind];
  for (const field of Object.values(DESTINATION_FIELD)) {
    if (field === own || patch[field] === undefined) continue;
    throw invalidField(
      field,
      `Remove it: an endpoint of kind ${endpoint.kind} states ${own}.`,
      'destination_mismatch',
    );
  }
  if (patch.url !== undefined) await checkDestination(patch.url, context.destinations);
  if (patch.relay ?? patch.relayGroup) requireRelayFor(context, patch);
}

/**
 * Applies a patch. Without a change the generation stays. Throws `conflict` for an alias that is taken, or a person who is
 * not connected.
 */
export async function updateCallback(
  tx: Queryable,
  { secrets }: Sealing,
  change: CallbackChange & { patch: CallbackPatch },
  nowMs: number,
): Promise<EndpointRow> {
  const endpoint = await lockCallback(tx, refOf(change));
  requireVersion({ version: endpoint.generation }, change.generation);
  const { lifecycle = endpoint.lifecycle, alias = endpoint.alias, url } = change.patch;
  // A new address replaces one whose key is lost.
  const oldUrl = openKnownUrl(secrets, endpoint, endpoint.urlBox);
  const movesUrl = url !== undefined && url !== oldUrl;
  const turns = lifecycle !== endpoint.lifecycle;
  const relay = relayMoveOf(endpoint, change.patch);
  if (!movesUrl && !relay && !turns && alias === endpoint.alias) return endpoint;

  const urlBox = movesUrl ? sealUrl(secrets, endpoint, url) : endpoint.urlBox;
  const { organizationId } = change.caller;
  const wanted = relay ? { ...change.patch, organizationId } : { organizationId };
  const relayed = await findRelayed(tx, { secrets }, wanted, nowMs);
  const next = { ...nextVersion(endpoint, nowMs), alias, urlBox, ...relayed };
  const details = {
    alias: alias === endpoint.alias ? undefined : { from: endpoint.alias, to: alias },
    url: movesUrl ? { from: oldUrl && originOf(oldUrl), to: originOf(url) } : undefined,
    relay,
  };
  const { caller } = change;
  if (!turns) await writeState(tx, endpoint, next);
  else if (lifecycle === 'active') await writeState(tx, endpoint, { ...next, ...ACTIVE });
  else await disable(tx, endpoint, { next, actor: caller.actor }, nowMs);
  const updated = { change: turnOf(endpoint.lifecycle, lifecycle), details, by: caller };
  await recordEndpointChange(tx, next, updated, nowMs);
  return await requireCallback(tx, refOf(change));
}

function turnOf(from: EndpointLifecycle, to: EndpointLifecycle): EndpointChangeKind {
  if (from === to) return { kind: 'configuration', action: 'update' };
  return { kind: 'lifecycle', action: to === 'active' ? 'enable' : 'disable', from, to };
}

const ACTIVE = { lifecycle: 'active', disabledMs: undefined, disabledReason: undefined } as const;

export interface GoneEndpoint extends EndpointRef {
  reason: string;
  /** Whether a sealed address is the one that answered. Without it any is. */
  isAddress?: (urlBox: Buffer) => boolean;
}

/**
 * Disables an endpoint whose receiver answered 410 (docs/contract/callbacks.md), at the same cost whatever is pending.
 * Does nothing for an endpoint that is removed or disabled, or whose address is no longer the one that
 * answered: its new address may work. Returns whether it was disabled.
 */
export async function disableEndpoint(
  tx: Queryable,
  { isAddress, reason, ...ref }: GoneEndpoint,
  nowMs: number,
): Promise<boolean> {
  const endpoint = await lockEndpoint(tx, ref);
  if (endpoint?.lifecycle !== 'active') return false;
  if (endpoint.urlBox && isAddress?.(endpoint.urlBox) === false) return false;
  const next = nextVersion(endpoint, nowMs);
  await disable(tx, endpoint, { next, reason }, nowMs);
  const disabled = { change: turnOf('active', 'disabled'), details: { reason }, by: { actor: SYSTEM_ACTOR } };
  await recordEndpointChange(tx, next, disabled, nowMs);
  return true;
}

/** Cancels also what was created while the caller, whose clock is `nowMs`, waited for the endpoint's lock. */
async function disable(
  tx: Queryable,
  endpoint: EndpointRow,
  { next, reason, actor }: { next: EndpointState; reason?: string; actor?: Actor },
  nowMs: number,
): Promise<void> {
  const canceledUntilMs = await readNow(tx);
  await writeState(tx, endpoint, {
    ...next,
    lifecycle: 'disabled',
    disabledMs: nowMs,
    disabledReason: reason,
    canceledUntilMs,
  });
  await cancelDeliveriesTo(tx, endpoint, { reason: 'endpoint_disabled', actor }, canceledUntilMs);
}

/** Issues a new secret; the old one also signs for `overlapSeconds` (0 to 900). */
export async function rotateCallbackSecret(
  tx: Queryable,
  { secrets }: Sealing,
  change: CallbackChange & { overlapSeconds: number },
  nowMs: number,
): Promise<IssuedCallback> {
  const ref = refOf(change);
  const endpoint = await lockCallback(tx, ref);
  requireVersion({ version: endpoint.generation }, change.generation);
  if (!endpoint.secret) {
    throw new ProblemError('conflict', {
      detail: `An endpoint of kind ${endpoint.kind} has no signing secret: there is nothing to rotate.`,
    });
  }
  const { version } = endpoint.secret;
  const current = { ...ref, version, overlapSeconds: change.overlapSeconds };
  const secret = await reissueSecret(tx, secrets, current, nowMs);
  const next = nextVersion(endpoint, nowMs);
  await writeState(tx, endpoint, next);
  const rotated = { change: { kind: 'configuration', action: 'rotate_secret' }, by: change.caller } as const;
  await recordEndpointChange(tx, next, rotated, nowMs);
  return { endpoint: await requireCallback(tx, ref), secret };
}

function nextVersion(endpoint: EndpointRow, nowMs: number): EndpointRow {
  return { ...endpoint, generation: endpoint.generation + 1, updatedMs: nowMs };
}

async function writeState(tx: Queryable, endpoint: EndpointRow, state: EndpointState): Promise<void> {
  const written = await updateEndpoint(tx, endpoint, state);
  if (written === 'alias_taken') throw aliasTaken(state.alias ?? '');
}
