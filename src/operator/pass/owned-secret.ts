// The step of the pass that keeps the Secret of an object: read by name, written only if the object owns it. Secrets are
// never listed and never logged.
import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from '../../kube/kube-client.ts';
import { controllerReference, type KubeObject, type KubeResource } from '../../kube/kube-object.ts';
import type { OperatorContext } from '../operator-context.ts';
import { SECRETS, type SecretObject } from '../resources/core-resources.ts';
import { MANAGED_BY_LABEL } from '../resources/names.ts';
import { parseSpecHash } from './desired-hash.ts';
import type { Desired, Kind, OwnedSecret, SecretContent, Work } from './kind.ts';
import { Blocked, type ReconciledObject } from './object.ts';

/** The owner of a Secret, and the keys that its kind writes. */
interface SecretOwner {
  resource: KubeResource;
  object: KubeObject;
  keys: readonly string[];
}

/** True if the Secret exists, holds what the last pass wrote, and is not outdated. Throws Blocked, KubeError. */
export async function isSecretIntact<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  { resource, secret, cache }: Kind<O, D, E>,
  { object, desired, memory }: Work<O, D, E>,
): Promise<boolean> {
  const { secretName } = desired;
  if (nameIn(object.status?.[secret.statusField]) !== secretName) return false;
  if (secretName === undefined) return true;
  // One check per resync, less its scatter: passes that a beat causes read no Secret.
  const freshMs = cache.resyncPeriodMs(context.settings.resyncMs) * 0.8;
  const { secretCheckedAtMs } = memory;
  const freshSinceMs = Math.max(performance.now() - freshMs, secret.intactSinceMs ?? 0);
  if (secretCheckedAtMs !== undefined && secretCheckedAtMs > freshSinceMs) return true;
  const known = await readOwned(context.kube, { resource, object, keys: secret.keys }, secretName);
  const given = parseSpecHash(object.status?.specHash).secret;
  if (known === undefined || secret.hashOf(known.data) !== given) return false;
  if (secret.isOutdated?.(known.data)) return false;
  memory.secretCheckedAtMs = performance.now();
  return true;
}

/** Writes the Secret if it differs, and returns the hash of its content; '' if the object has none. */
export async function ensureSecret<O extends ReconciledObject, D extends Desired, E>(
  { kube }: OperatorContext,
  { resource, secret, events }: Kind<O, D, E>,
  work: Work<O, D, E>,
): Promise<string> {
  const { object, desired } = work;
  if (desired.secretName === undefined) return '';
  const owner = { resource, object, keys: secret.keys };
  const known = await readOwned(kube, owner, desired.secretName);
  const former = formerNameOf(secret, work);
  // After a change of its name, the content of the former Secret is still valid.
  const source = known ?? (former === undefined ? undefined : await findOwned(kube, owner, former));
  const content = await secret.contentOf(work, source);
  await writeOwned(kube, owner, known, { ...content, name: desired.secretName });
  if (content.event !== undefined) events.record(object, ...content.event);
  work.memory.secretCheckedAtMs = performance.now();
  return secret.hashOf(content.data);
}

/** Deletes the Secret of the former name, once the one of the current name is written. Throws KubeError. */
export async function deleteFormerSecret<O extends ReconciledObject, D extends Desired, E>(
  kube: KubeClient,
  { resource, secret }: Kind<O, D, E>,
  work: Work<O, D, E>,
): Promise<void> {
  const former = formerNameOf(secret, work);
  if (former !== undefined) await deleteOwned(kube, { resource, object: work.object, keys: [] }, former);
}

/** Deletes the Secrets that spec and status name. Throws KubeError. */
export async function deleteSecrets<O extends ReconciledObject, D extends Desired, E>(
  kube: KubeClient,
  { resource, secret }: Kind<O, D, E>,
  object: O,
): Promise<void> {
  for (const name of new Set([secret.nameOf(object), nameIn(object.status?.[secret.statusField])]))
    if (name !== undefined) await deleteOwned(kube, { resource, object, keys: [] }, name);
}

function formerNameOf(
  { statusField }: { statusField: string },
  { object, desired }: { object: ReconciledObject; desired: Desired },
): string | undefined {
  const name = nameIn(object.status?.[statusField]);
  return name === desired.secretName ? undefined : name;
}

/** The name in a reference of the status, such as `publishSecretRef`. */
function nameIn(reference: unknown): string | undefined {
  if (typeof reference !== 'object' || reference === null || !('name' in reference)) return undefined;
  return typeof reference.name === 'string' ? reference.name : undefined;
}

/** Undefined if there is none. Throws Blocked `SecretConflict` if the Secret belongs to somebody else; KubeError. */
async function readOwned(
  kube: KubeClient,
  owner: SecretOwner,
  name: string,
): Promise<OwnedSecret | undefined> {
  const secret = await kube.find(SECRETS, { namespace: owner.object.metadata.namespace, name });
  if (secret === undefined) return undefined;
  if (isOwned(secret, owner)) return decoded(secret, owner);
  const message = `The Secret ${name} exists and does not belong to this ${owner.resource.kind}: set another name in the spec, or delete that Secret.`;
  throw new Blocked('SecretConflict', message);
}

/** Like `readOwned`, but undefined if the Secret belongs to somebody else. */
async function findOwned(
  kube: KubeClient,
  owner: SecretOwner,
  name: string,
): Promise<OwnedSecret | undefined> {
  const secret = await kube.find(SECRETS, { namespace: owner.object.metadata.namespace, name });
  return secret !== undefined && isOwned(secret, owner) ? decoded(secret, owner) : undefined;
}

/**
 * A Secret of a former object of the same kind and name counts as owned: it is left after a restore or a new install.
 * Two objects of one kind and name never exist at once.
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

/** Creates the Secret or replaces the version `known`; sends nothing if nothing differs. Throws KubeError. */
async function writeOwned(
  kube: KubeClient,
  owner: SecretOwner,
  known: OwnedSecret | undefined,
  content: SecretContent & { name: string },
): Promise<void> {
  const { keys, object, resource } = owner;
  const isRight = known !== undefined && isDeepStrictEqual(known.data, content.data);
  if (isRight && isMarked(known, object, content.annotations)) return;
  const { secret: existing, annotations } = known ?? {};
  const foreign = Object.entries(existing?.data ?? {}).filter(([key]) => !keys.includes(key));
  const encoded = Object.entries(content.data).map(([key, value]) => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  const secret: SecretObject = {
    ...existing,
    metadata: {
      ...existing?.metadata,
      name: content.name,
      namespace: object.metadata.namespace,
      labels: { ...existing?.metadata.labels, ...MANAGED_BY_LABEL },
      annotations: defined({ ...annotations, ...content.annotations }),
      ownerReferences: [controllerReference(resource, object)],
    },
    type: existing?.type ?? 'Opaque',
    data: Object.fromEntries([...foreign, ...encoded]),
  };
  if (existing === undefined) await kube.create(SECRETS, secret);
  else if (existing.immutable) await makeAgain(kube, secret);
  else await kube.replace(SECRETS, secret);
}

/**
 * True if the Secret names this object as its owner, by UID, and has these annotations (undefined: none of that name).
 * The garbage collector deletes a Secret whose owner is gone.
 */
function isMarked(
  { secret, annotations: stated }: OwnedSecret,
  { metadata: { uid: owner } }: KubeObject,
  annotations: SecretContent['annotations'],
): boolean {
  if (!secret.metadata.ownerReferences?.some(({ uid }) => uid === owner)) return false;
  return Object.entries(annotations).every(([name, text]) => stated[name] === text);
}

function defined(texts: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(texts).flatMap(([key, text]) => (text === undefined ? [] : [[key, text]])),
  );
}

/** An immutable Secret cannot be changed: it is deleted and created again, immutable as before. */
async function makeAgain(kube: KubeClient, secret: SecretObject): Promise<void> {
  const { uid, resourceVersion, creationTimestamp: _made, ...metadata } = secret.metadata;
  await kube.delete(SECRETS, secret.metadata, { uid, resourceVersion });
  await kube.create(SECRETS, { ...secret, metadata });
}

/** Deletes the Secret if the object owns it. Accepts that it is gone. Throws KubeError. */
async function deleteOwned(kube: KubeClient, owner: SecretOwner, name: string): Promise<void> {
  const owned = await findOwned(kube, owner, name);
  if (owned === undefined) return;
  const { metadata } = owned.secret;
  await kube.delete(SECRETS, metadata, { uid: metadata.uid });
}

function decoded(secret: SecretObject, { keys }: SecretOwner): OwnedSecret {
  const texts = decodeData(secret);
  const data = keys.flatMap((key) => (texts[key] === undefined ? [] : [[key, texts[key]]]));
  return { secret, data: Object.fromEntries(data), annotations: secret.metadata.annotations ?? {} };
}

/** A trimmed value of a user's Secret; undefined if the Secret or the key is missing. */
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
