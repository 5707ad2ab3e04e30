// Which external resource an object stands for, and which of several objects that claim one has it.
import { createHash } from 'node:crypto';
import { IDENTIFIER_PATTERN } from '../../domain/id.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import { type KubeObject, objectKey } from '../../kube/kube-object.ts';
import type { ObjectStore } from '../../kube/object-store.ts';
import { type Namespaces, projectNameOf } from '../known/project-directory.ts';
import { Blocked, type Identity, type ReconciledObject } from './object.ts';

/** The id that follows from the object's UID, so that a create whose answer was lost finds its resource again. */
export function ownId({ prefix }: Identity, { metadata }: KubeObject): string {
  return `${prefix}_${(metadata.uid ?? '').replaceAll('-', '')}`;
}

/** True if the id follows from the object's UID: the resource was created for it. */
export function isOwnId(identity: Identity, object: KubeObject, id: string): boolean {
  const own = ownId(identity, object);
  return id === own || (identity.isNumbered && id.startsWith(own));
}

/** The id after this one: `cb_<uid>-2`, `-3` and so on. Deterministic, so that every pass finds the same id. */
export function nextOwnId(identity: Identity, object: KubeObject, id: string): string {
  const own = ownId(identity, object);
  if (id === own) return `${own}-2`;
  const count = id.startsWith(`${own}-`) ? Number(id.slice(own.length + 1)) : Number.NaN;
  return Number.isSafeInteger(count) ? `${own}-${count + 1}` : own;
}

/** The id that an object claims: the annotation, else the id in the status, else the object's own id. */
export function idOf(identity: Identity, object: ReconciledObject): string {
  return (
    object.metadata.annotations?.[identity.annotation] ||
    statusIdOf(identity, object) ||
    ownId(identity, object)
  );
}

/** The id of the resource that the object had in the last pass. */
export function statusIdOf({ statusField }: Identity, { status }: ReconciledObject): string | undefined {
  const id = status?.[statusField];
  return typeof id === 'string' ? id : undefined;
}

/** Where the claims on the resources of a kind are found. */
export interface Claims<O extends ReconciledObject> {
  readonly identity: Identity;
  /** With the index `id`. */
  readonly cache: ObjectStore<O>;
}

/** The object that holds the id, of all that claim it in the project. Namespaces may share a project. */
export function findHolder<O extends ReconciledObject>(
  context: Namespaces,
  claims: Claims<O>,
  { object, id }: { object: O; id: string },
): O {
  const claimants = [...conflictingClaims(context, claims, { object, id }), object];
  const rank = (one: O) => {
    if (isOwnId(claims.identity, one, id)) return 0;
    return statusIdOf(claims.identity, one) === id ? 1 : 2;
  };
  // First the object that it was created for, then the one that already has it, then the oldest.
  return claimants.toSorted((a, b) => rank(a) - rank(b) || compareAge(a, b))[0] ?? object;
}

/** True if another object claims the id in the project. */
export function hasConflictingClaim<O extends ReconciledObject>(
  context: Namespaces,
  claims: Claims<O>,
  claim: { object: O; id: string },
): boolean {
  return conflictingClaims(context, claims, claim).length > 0;
}

function conflictingClaims<O extends ReconciledObject>(
  context: Namespaces,
  { cache }: Claims<O>,
  { object, id }: { object: O; id: string },
): O[] {
  // Spellings that differ in case or spaces name one project.
  const projectOf = (one: O) => projectNameKey(projectNameOf(context, one));
  return cache
    .listBy('id', id)
    .filter((other) => other.metadata.uid !== object.metadata.uid && projectOf(other) === projectOf(object));
}

/** Throws Blocked: `Refused` if the annotation holds no valid id, `Conflict` if another object holds it. */
export function requireHeld<O extends ReconciledObject>(
  context: Namespaces,
  claims: Claims<O>,
  claim: { object: O; id: string },
): void {
  const { annotation, noun } = claims.identity;
  if (!IDENTIFIER_PATTERN.test(claim.id)) {
    const message = `The annotation ${annotation} holds no valid identifier: correct or remove it.`;
    throw new Blocked('Refused', message, 600_000);
  }
  const holder = findHolder(context, claims, claim);
  if (holder === claim.object) return;
  const message = `${objectKey(holder)} already stands for the ${noun} ${claim.id}: remove the annotation ${annotation} here, or delete that object.`;
  throw new Blocked('Conflict', message, 60_000);
}

/** Oldest first; within one second, by UID. */
export function compareAge(a: KubeObject, b: KubeObject): number {
  return (
    compare(a.metadata.creationTimestamp, b.metadata.creationTimestamp) ||
    compare(a.metadata.uid, b.metadata.uid)
  );
}

function compare(a = '', b = ''): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

const MAX_ALIAS = 64;
const MAX_NAME = 160;

/** `metadata.name` with dots as hyphens, cut to 64 with a hash of the whole. */
export function defaultAlias(name: string): string {
  return cutWithHash(name.replaceAll('.', '-'), name, MAX_ALIAS);
}

/** `metadata.name`, cut to what a monitor's name may have. */
export function defaultName(name: string): string {
  return cutWithHash(name, name, MAX_NAME);
}

function cutWithHash(text: string, whole: string, maximum: number): string {
  if (text.length <= maximum) return text;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, 8);
  return `${text.slice(0, maximum - hash.length - 1)}-${hash}`;
}
