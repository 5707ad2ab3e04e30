// The endpoint of an inline binding: a URL of one monitor (docs/contract/callbacks.md). It has no alias and is in no
// list. Every function runs in the caller's transaction, which holds the monitor's lock. The caller has checked the URL
// (checkDestination) before that transaction, and counts the endpoint against the plan at its end (endpoint-count.ts).
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
import { type CancellationCause, cancelDeliveriesTo } from '../../store/deliveries/cancellations.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import type { ServiceContext } from '../calls/context.ts';
import { type IssuedSecret, issueSecret, openKnownUrl, reissueSecret, sealUrl } from './endpoint-seal.ts';

type Sealing = Pick<ServiceContext, 'secrets'>;

export interface InlineEndpoint {
  /** Goes into `monitors.inline_endpoint_id`. */
  endpointId: string;
  /** Its URL, sealed. */
  urlBox: Buffer;
  /** Shown once, in the answer to this call. */
  secret: IssuedSecret;
}

/** Creates the endpoint with its first secret. */
export async function createInlineEndpoint(
  tx: Queryable,
  { secrets }: Sealing,
  { projectId, monitorKey, url }: MonitorRef & { url: string },
  nowMs: number,
): Promise<InlineEndpoint> {
  const ref: EndpointRef = { projectId, endpointId: newId('cb') };
  const urlBox = sealUrl(secrets, ref, url);
  await insertEndpoint(tx, { ...ref, kind: 'webhook', urlBox, monitorKey, createdMs: nowMs });
  return { endpointId: ref.endpointId, urlBox, secret: await issueSecret(tx, secrets, ref, nowMs) };
}

/** Issues a new secret. For the overlap, a receiver that still has the old one loses nothing. */
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
 * Sets the URL, and activates an endpoint that a 410 of its receiver disabled: setting the binding is the way to do
 * that. The secret stays (docs/contract/callbacks.md). Returns the sealed URL, or undefined when nothing changed.
 */
export async function updateInlineUrl(
  tx: Queryable,
  { secrets }: Sealing,
  change: EndpointRef & { url: string },
  nowMs: number,
): Promise<Buffer | undefined> {
  const endpoint = await requireInline(tx, change);
  // A new address replaces one whose key is lost.
  const current = openKnownUrl(secrets, endpoint, endpoint.urlBox);
  if (current === change.url && endpoint.lifecycle === 'active') return undefined;
  const urlBox = sealUrl(secrets, change, change.url);
  const active = { lifecycle: 'active', disabledMs: undefined, disabledReason: undefined } as const;
  await writeState(tx, { ...endpoint, ...active, urlBox }, nowMs);
  return urlBox;
}

/** Erases address and secrets, and cancels pending deliveries, `why`. False, and nothing, for a removed endpoint. */
export async function removeInlineEndpoint(
  tx: Queryable,
  ref: EndpointRef,
  why: CancellationCause,
  nowMs: number,
): Promise<boolean> {
  const endpoint = await lockEndpoint(tx, ref);
  if (!endpoint) return false;
  await removeEndpoint(tx, ref, nowMs);
  await deleteSigningSecrets(tx, ref);
  await cancelDeliveriesTo(tx, ref, why, await readNow(tx));
  return true;
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
  // monitors.inline_endpoint_id names it and the monitor is locked: this is a bug.
  throw new Error(`The inline endpoint ${ref.endpointId} does not exist.`);
}
