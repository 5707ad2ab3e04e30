// The one Secret of an object: read by name, written only where the object owns it. Never listed, never logged.
import type { KubeClient } from '../../kube/kube-client.ts';
import { controllerReference, type KubeObject, type KubeResource } from '../../kube/kube-object.ts';
import { SECRETS, type SecretObject } from '../resources/core-resources.ts';
import { MANAGED_BY_LABEL } from '../resources/names.ts';
import { Blocked } from './blocked.ts';

export interface SecretOwner {
  resource: KubeResource;
  object: KubeObject;
}

export interface OwnedSecret {
  secret: SecretObject;
  /** Decoded. */
  data: Record<string, string>;
}

/** The object's Secret, or undefined. Throws Blocked `SecretConflict` where another one has the name; KubeError. */
export async function readOwnedSecret(
  kube: KubeClient,
  owner: SecretOwner,
  name: string,
): Promise<OwnedSecret | undefined> {
  const secret = await kube.find(SECRETS, { namespace: owner.object.metadata.namespace, name });
  if (secret === undefined) return undefined;
  if (!isOwned(secret, owner)) {
    const message = `The Secret ${name} is not owned by this ${owner.resource.kind}: rename one of the two.`;
    throw new Blocked('SecretConflict', message);
  }
  return { secret, data: decodeData(secret) };
}

/** The Secret under the name that it had before; undefined where it had no other. Throws KubeError. */
export async function findFormerSecret(
  kube: KubeClient,
  owner: SecretOwner,
  names: { former: string | undefined; current: string },
): Promise<OwnedSecret | undefined> {
  const { former, current } = names;
  return former === undefined || former === current ? undefined : await findOwnedSecret(kube, owner, former);
}

/** As `readOwnedSecret`, but undefined where another one has the name. */
async function findOwnedSecret(
  kube: KubeClient,
  owner: SecretOwner,
  name: string,
): Promise<OwnedSecret | undefined> {
  const secret = await kube.find(SECRETS, { namespace: owner.object.metadata.namespace, name });
  return secret !== undefined && isOwned(secret, owner) ? { secret, data: decodeData(secret) } : undefined;
}

/**
 * Also one of an object of the same kind and name that was there before: after a restore, or a new install over
 * what an old one left. Two objects of one name are never there at once.
 */
function isOwned({ metadata }: SecretObject, { resource, object }: SecretOwner): boolean {
  const { uid, name } = object.metadata;
  return (metadata.ownerReferences ?? []).some(
    (ref) =>
      ref.uid === uid ||
      (ref.controller === true &&
        ref.kind === resource.kind &&
        ref.name === name &&
        ref.apiVersion === resource.apiVersion),
  );
}

/**
 * True if the Secret names this very object as its owner and has these annotations (undefined: none of that name).
 * What names an object that is gone is taken away by the garbage collector.
 */
export function isMarked(
  { secret }: OwnedSecret,
  { object }: SecretOwner,
  annotations: Record<string, string | undefined>,
): boolean {
  const { ownerReferences = [], annotations: stated } = secret.metadata;
  if (!ownerReferences.some(({ uid }) => uid === object.metadata.uid)) return false;
  return Object.entries(annotations).every(([name, text]) => stated?.[name] === text);
}

export interface SecretContent {
  name: string;
  /** In the clear. A key of `keys` that is not in it is taken away; keys of others stay. */
  data: Record<string, string>;
  keys: readonly string[];
  /** Undefined: taken away. */
  annotations?: Record<string, string | undefined>;
}

/** Creates the Secret or replaces the version `known`. Throws KubeError, a conflict among them. */
export async function writeOwnedSecret(
  kube: KubeClient,
  owner: SecretOwner,
  known: OwnedSecret | undefined,
  content: SecretContent,
): Promise<void> {
  const { namespace } = owner.object.metadata;
  const existing = known?.secret;
  const foreign = Object.entries(existing?.data ?? {}).filter(([key]) => !content.keys.includes(key));
  const encoded = Object.entries(content.data).map(([key, value]) => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  const secret: SecretObject = {
    ...existing,
    metadata: {
      ...existing?.metadata,
      name: content.name,
      namespace,
      labels: { ...existing?.metadata.labels, ...MANAGED_BY_LABEL },
      annotations: defined({ ...existing?.metadata.annotations, ...content.annotations }),
      ownerReferences: [controllerReference(owner.resource, owner.object)],
    },
    type: existing?.type ?? 'Opaque',
    data: Object.fromEntries([...foreign, ...encoded]),
  };
  if (existing === undefined) await kube.create(SECRETS, secret);
  else if (existing.immutable) await makeAgain(kube, secret);
  else await kube.replace(SECRETS, secret);
}

function defined(texts: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(texts).flatMap(([key, text]) => (text === undefined ? [] : [[key, text]])),
  );
}

/** Nobody can change an immutable Secret: another one takes its place, as immutable as it was. */
async function makeAgain(kube: KubeClient, secret: SecretObject): Promise<void> {
  const { uid, resourceVersion, creationTimestamp: _made, ...metadata } = secret.metadata;
  await kube.delete(SECRETS, secret.metadata, { uid, resourceVersion });
  await kube.create(SECRETS, { ...secret, metadata });
}

/** Takes the Secret away if the object owns it. Fine if it is gone. Throws KubeError. */
export async function deleteOwnedSecret(kube: KubeClient, owner: SecretOwner, name: string): Promise<void> {
  const owned = await findOwnedSecret(kube, owner, name);
  if (owned === undefined) return;
  const { metadata } = owned.secret;
  await kube.delete(SECRETS, metadata, { uid: metadata.uid });
}

/** Takes the Secret under a former name away, once the one under the current name is right. Throws KubeError. */
export async function deleteFormerSecret(
  kube: KubeClient,
  owner: SecretOwner,
  { former, current }: { former: string | undefined; current: string | undefined },
): Promise<void> {
  if (former !== undefined && former !== current) await deleteOwnedSecret(kube, owner, former);
}

/** A value of a Secret that a user made; undefined where Secret or key is missing. Blanks around it are cut. */
export async function readSecretValue(
  kube: KubeClient,
  ref: { namespace: string | undefined; name: string; key: string },
): Promise<string | undefined> {
  const secret = await kube.find(SECRETS, { namespace: ref.namespace, name: ref.name });
  return secret && decodeData(secret)[ref.key]?.trim();
}

function decodeData({ data }: SecretObject): Record<string, string> {
  const entries = Object.entries(data ?? {});
  return Object.fromEntries(
    entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]),
  );
}
