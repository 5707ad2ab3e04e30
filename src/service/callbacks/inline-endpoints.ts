// The endpoint of an inline binding: a URL used by one monitor only (docs/contract/callbacks.md). It has no alias, is in no list
// and counts against no plan limit. Every function works in the caller's transaction, which holds the monitor's lock.
// The caller has checked the URL (checkDestination) before its transaction.
import { SIGNING_OVERLAP_SECONDS } from '../../domain/defaults.ts';
import { newId } from '../../domain/id.ts';
import {
  type EndpointRef,
  type EndpointRow,
  insertEndpoint,
  lockEndpoint,
  removeEndpoint,
  updateEndpoint,
} from '../../store/callbacks/callback-endpoints.ts';
import { deleteSigningSecrets } from '../../store/callbacks/signing-secrets.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { ServiceContext } from '../calls/context.ts';
import { type Cancellation, cancelPendingDeliveries } from '../deliveries/delivery-cancellation.ts';
import { type IssuedSecret, issueSecret, openUrl, reissueSecret, sealUrl } from './endpoint-seal.ts';

type Sealing = Pick<ServiceContext, 'secrets'>;

export interface InlineEndpoint {
  /** Goes into `monitors.inline_endpoint_id`. */
  endpointId: string;
  /** Its URL, sealed. */
  urlBox: Buffer;
  /** Shown once, in the answer that is being made. */
  secret: IssuedSecret;
}

/** Makes the endpoint of an inline binding with its first secret. */
export async function createInlineEndpoint(
  tx: Queryable,
  { secrets }: Sealing,
  { projectId, monitorKey, url }: MonitorRef & { url: string },
  nowMs: number,
): Promise<InlineEndpoint> {
  const ref: EndpointRef = { projectId, endpointId: newId('cb') };
  const urlBox = sealUrl(secrets, ref.endpointId, url);
  await insertEndpoint(tx, { ...ref, kind: 'webhook', urlBox, monitorKey, createdMs: nowMs });
  return { endpointId: ref.endpointId, urlBox, secret: await issueSecret(tx, secrets, ref, nowMs) };
}

/** Issues a new secret where the old one is lost. A receiver that still has the old one loses nothing for the overlap. */
export async function rotateInlineSecret(
  tx: Queryable,
  { secrets }: Sealing,
  ref: EndpointRef,
  nowMs: number,
): Promise<IssuedSecret> {
  const endpoint = await requireInline(tx, ref);
  const version = endpoint.secret?.version ?? 0;
  await writeState(tx, endpoint, nowMs);
  return reissueSecret(tx, secrets, { ...ref, version, overlapSeconds: SIGNING_OVERLAP_SECONDS }, nowMs);
}

/**
 * Points the endpoint to `url` and makes it active again if it was disabled (a receiver answered 410): setting the
 * binding is the way to do that. The secret stays (docs/contract/callbacks.md). Returns the URL, sealed, where anything
 * changed.
 */
export async function updateInlineUrl(
  tx: Queryable,
  { secrets }: Sealing,
  change: EndpointRef & { url: string },
  nowMs: number,
): Promise<Buffer | undefined> {
  const endpoint = await requireInline(tx, change);
  const current = endpoint.urlBox && openUrl(secrets, endpoint.endpointId, endpoint.urlBox);
  if (current === change.url && endpoint.lifecycle === 'active') return undefined;
  const urlBox = sealUrl(secrets, change.endpointId, change.url);
  const active = { lifecycle: 'active', disabledMs: undefined, disabledReason: undefined } as const;
  await writeState(tx, { ...endpoint, ...active, urlBox }, nowMs);
  return urlBox;
}

/** Erases address and secrets, and cancels what is pending, `why`. Does nothing where it is gone already. */
export async function removeInlineEndpoint(
  tx: Queryable,
  ref: EndpointRef,
  why: Omit<Cancellation, 'scope'>,
  nowMs: number,
): Promise<void> {
  const endpoint = await lockEndpoint(tx, ref);
  if (!endpoint) return;
  await removeEndpoint(tx, ref, nowMs);
  await deleteSigningSecrets(tx, ref);
  await cancelPendingDeliveries(tx, { ...why, scope: { endpoint: ref } }, nowMs);
}

async function writeState(tx: Queryable, endpoint: EndpointRow, nowMs: number): Promise<void> {
  await updateEndpoint(tx, endpoint, {
    ...endpoint,
    generation: endpoint.generation + 1,
    updatedMs: nowMs,
  });
}

async function requireInline(tx: Queryable, ref: EndpointRef): Promise<EndpointRow> {
  const endpoint = await lockEndpoint(tx, ref);
  if (endpoint?.monitorKey) return endpoint;
  // monitors.inline_endpoint_id names it and the monitor is locked: a fault of ours.
  throw new Error(`The inline endpoint ${ref.endpointId} is not there.`);
}
