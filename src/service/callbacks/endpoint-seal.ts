// Seals addresses and signing secrets of endpoints, each for its place: a box that is copied to another endpoint or
// column does not open.
import { newSigningSecret } from '../../delivery/webhook/signature.ts';
import { ProblemError } from '../../domain/problem.ts';
import type { EndpointRef, SecretMetadata } from '../../store/callbacks/callback-endpoints.ts';
import { relayTopicPlace } from '../../store/callbacks/relay-topics.ts';
import {
  findValidSecretBoxes,
  insertSigningSecret,
  supersedeSigningSecret,
} from '../../store/callbacks/signing-secrets.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { placeOf, type SecretBox } from '../../store/postgres/secret-box.ts';

/** A secret at the one moment at which it can be read. */
export interface IssuedSecret extends SecretMetadata {
  secret: string;
}

/** The associated data of an address. */
export const urlPlace = ({ projectId, endpointId }: EndpointRef): string =>
  placeOf(projectId, endpointId, 'url');

/** The associated data of what an endpoint sends to: the URL of a webhook, the topic of a relay kind. */
export const addressPlace = (ref: EndpointRef, relayTopicId: string | undefined): string =>
  relayTopicId === undefined ? urlPlace(ref) : relayTopicPlace(relayTopicId);

/** The associated data of each signing secret of an endpoint. */
export const secretPlace = ({ projectId, endpointId }: EndpointRef): string =>
  placeOf(projectId, endpointId, 'signing-secret');

export function sealUrl(secrets: SecretBox, ref: EndpointRef, url: string): Buffer {
  return secrets.seal(url, urlPlace(ref));
}

/** Throws when the installation no longer has the key. */
export function openUrl(secrets: SecretBox, ref: EndpointRef, urlBox: Buffer): string {
  return secrets.open(urlBox, urlPlace(ref));
}

/**
 * Whether two boxes of an endpoint hold one address: the same address may have been sealed again. False where a key is
 * missing.
 */
export function isSameUrl(secrets: SecretBox, ref: EndpointRef, boxes: readonly [Buffer, Buffer]): boolean {
  const [one, other] = boxes;
  if (one.equals(other)) return true;
  const url = openKnownUrl(secrets, ref, one);
  return url !== undefined && url === openKnownUrl(secrets, ref, other);
}

/** Undefined where the installation no longer has the key: for writers that can do without the address. */
export function openKnownUrl(
  secrets: SecretBox,
  ref: EndpointRef,
  urlBox: Buffer | undefined,
): string | undefined {
  try {
    return urlBox && openUrl(secrets, ref, urlBox);
  } catch {
    return undefined;
  }
}

/** The secrets that sign now, newest first, in the clear: only for the headers of one attempt. */
export async function openValidSecrets(
  db: Queryable,
  secrets: SecretBox,
  ref: EndpointRef,
): Promise<string[]> {
  const boxes = await findValidSecretBoxes(db, ref);
  return boxes.map((box) => secrets.open(box, secretPlace(ref)));
}

/** Issues the first secret of an endpoint. */
export async function issueSecret(
  tx: Queryable,
  secrets: SecretBox,
  ref: EndpointRef,
  nowMs: number,
): Promise<IssuedSecret> {
  return insertNewSecret(tx, secrets, { ...ref, version: 1 }, nowMs);
}

/** docs/contract/callbacks.md. */
const MAX_SECRET_VERSION = 65_535;

/**
 * Issues a secret of the next version; the one before it signs for `overlapSeconds` more.
 * Throws `conflict` after the last version.
 */
export async function reissueSecret(
  tx: Queryable,
  secrets: SecretBox,
  current: EndpointRef & { version: number; overlapSeconds: number },
  nowMs: number,
): Promise<IssuedSecret> {
  const { version, overlapSeconds, projectId, endpointId } = current;
  if (version >= MAX_SECRET_VERSION) {
    throw new ProblemError('conflict', {
      detail: `The signing secret has its last version, ${MAX_SECRET_VERSION}: create a new endpoint, or set a new inline binding.`,
    });
  }
  const endsMs = nowMs + overlapSeconds * 1000;
  await supersedeSigningSecret(tx, current, { version, endsMs });
  const issued = await insertNewSecret(tx, secrets, { projectId, endpointId, version: version + 1 }, nowMs);
  if (overlapSeconds === 0) return issued;
  return { ...issued, previous: { version, endsMs } };
}

async function insertNewSecret(
  tx: Queryable,
  secrets: SecretBox,
  row: EndpointRef & { version: number },
  nowMs: number,
): Promise<IssuedSecret> {
  const secret = newSigningSecret();
  await insertSigningSecret(tx, {
    ...row,
    secretBox: secrets.seal(secret, secretPlace(row)),
    issuedMs: nowMs,
  });
  return { secret, version: row.version, issuedMs: nowMs };
}
