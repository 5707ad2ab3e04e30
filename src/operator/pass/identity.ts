// Which external resource an object stands for, and which of several objects that claim one has it.
import { createHash } from 'node:crypto';
import { IDENTIFIER_PATTERN } from '../../domain/id.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import { type KubeObject, objectKey } from '../../kube/kube-object.ts';
import type { ObjectStore } from '../../kube/object-store.ts';
import { findProjectName, type Namespaces, type ProjectDirectory } from '../known/project-directory.ts';
import { Blocked, type CustomObject, type Identity, type ReconciledObject } from './object.ts';

/** The id that follows from the object's UID, so that a create whose answer was lost finds its resource again. */
export function ownId({ prefix }: Identity, { metadata }: KubeObject): string {
  return `${prefix}_${(metadata.uid ?? '').replaceAll('-', '')}`;
}

/** True if the id follows from the object's UID: the resource was created for it. */
export function isOwnId(identity: Identity, object: KubeObject, id: string): boolean {
  const own = ownId(identity, object);
  if (id === own) return true;
  return identity.isNumbered && id.startsWith(`${own}-`) && /^[1-9]\d*$/.test(id.slice(own.length + 1));
}

/** The id after this one: `cb_<uid>-2`, `-3` and so on. Deterministic, so that every pass finds the same id. */
export function nextOwnId(identity: Identity, object: KubeObject, id: string): string {
  const own = ownId(identity, object);
  if (id === own) return `${own}-2`;
  const count = id.startsWith(`${own}-`) ? Number(id.slice(own.length + 1)) : Number.NaN;
  return Number.isSafeInteger(count) ? `${own}-${count + 1}` : own;
}

/**
 * The id that an object claims: the annotation, else an id that follows from the UID. The status only says which of
 * those: it is no authority (docs/contract/kubernetes.md, "What the status may say").
 */
export function idOf(identity: Identity, object: CustomObject): string {
  const annotated = object.metadata.annotations?.[identity.annotation];
  if (annotated) return annotated;
  const known = statusIdOf(identity, object);
  return known !== undefined && isOwnId(identity, object, known) ? known : ownId(identity, object);
}

/**
 * The id of the resource that the object had in the last pass, as far as the status is to be believed. Undefined for
 * what the API would never call an id: no call may carry it.
 */
export function statusIdOf({ statusField }: Identity, { status }: CustomObject): string | undefined {
  const id = status?.[statusField];
  return typeof id === 'string' && IDENTIFIER_PATTERN.test(id) ? id : undefined;
}

/** Names an external resource. */
export interface ResourceRef {
  projectId: string;
  id: string;
}

/** A resource as an object claims it. */
export interface Claim<O extends ReconciledObject> {
  object: O;
  id: string;
  /** The project of the object's namespace; undefined: there is none of that name yet. */
  projectId: string | undefined;
}

/** True if a pass gave the resource to the object, as far as the status is to be believed. */
export function hasHad(
  identity: Identity,
  object: ReconciledObject,
  { id, projectId }: { id: string; projectId: string | undefined },
): boolean {
  return (
    projectId !== undefined && object.status?.projectId === projectId && statusIdOf(identity, object) === id
  );
}

/** The resource that a pass gave to an object last, and when, ms of the process's clock. No status can forge it. */
export interface Held {
  id: string;
  projectId: string;
  atMs: number;
}

/** Where the claims on the resources of a kind are found. */
export interface Claims<O extends ReconciledObject> {
  readonly identity: Identity;
  /** With the index `id`. */
  readonly cache: ObjectStore<O> & { memoryOf(object: KubeObject): { held?: Held } };
}

/**
 * The object that holds the id, of all that claim it in the project: the one that it was created for, then the one to
 * which this process gave it last, then the one that has it by its status, then the oldest. Namespaces may share a
 * project. More than one object if several have it by their status: all but one are forged, and nobody may take a
 * resource by that.
 */
export function findHolders<O extends ReconciledObject>(
  context: Namespaces,
  { identity, cache }: Claims<O>,
  { object, id, projectId }: Claim<O>,
): readonly O[] {
  // Spellings that differ in case or spaces name one project.
  const projectOf = (one: O) => {
    const name = findProjectName(context, one);
    return name === undefined ? undefined : projectNameKey(name);
  };
  const project = projectOf(object);
  const isRival = (one: O) => one.metadata.uid !== object.metadata.uid && projectOf(one) === project;
  const others = project === undefined ? [] : cache.listBy('id', id).filter(isRival);
  const claimants = [object, ...others].sort(compareAge);
  const creator = claimants.find((one) => isOwnId(identity, one, id));
  if (creator !== undefined) return [creator];
  const givenAtMs = (one: O) => {
    const { held } = cache.memoryOf(one);
    return held?.id === id && held.projectId === projectId ? held.atMs : Number.NEGATIVE_INFINITY;
  };
  const [last = object] = claimants.toSorted((a, b) => givenAtMs(b) - givenAtMs(a));
  if (givenAtMs(last) > Number.NEGATIVE_INFINITY) return [last];
  const having = claimants.filter((one) => hasHad(identity, one, { id, projectId }));
  return having.length > 0 ? having : claimants.slice(0, 1);
}

/** True if another object names the resource, from a namespace of that project. Throws ApiProblem. */
export async function isNamedByAnother<O extends ReconciledObject>(
  context: Namespaces & { readonly projects: Pick<ProjectDirectory, 'find'> },
  { cache }: Pick<Claims<O>, 'cache'>,
  { object, projectId, id }: ResourceRef & { object: O },
): Promise<boolean> {
  for (const other of cache.listBy('id', id)) {
    if (other.metadata.uid === object.metadata.uid) continue;
    const name = findProjectName(context, other);
    if (name !== undefined && (await context.projects.find(name)) === projectId) return true;
  }
  return false;
}

/** Throws Blocked: `Refused` if the annotation holds no valid id, `Conflict` if the object may not have it. */
export function requireHeld<O extends ReconciledObject>(
  { annotation, noun }: Identity,
  { object, id }: Claim<O>,
  holders: readonly O[],
): void {
  if (!IDENTIFIER_PATTERN.test(id)) {
    const message = `The annotation ${annotation} holds no valid identifier: correct or remove it.`;
    throw new Blocked('Refused', message, 600_000);
  }
  const [holder = object, ...rivals] = holders;
  if (rivals.length === 0 && holder === object) return;
  const message =
    rivals.length > 0
      ? `${nameSome(holders)} say that they stand for the ${noun} ${id}: remove the annotation ${annotation} from all but the right one.`
      : `${objectKey(holder)} already stands for the ${noun} ${id}: remove the annotation ${annotation} here, or delete that object.`;
  throw new Blocked('Conflict', message, 60_000);
}

const MAX_NAMED = 3;

/** `a/x and a/y`, at most three. */
export function nameSome(objects: readonly KubeObject[]): string {
  const names = objects.slice(0, MAX_NAMED).map(objectKey);
  if (objects.length > MAX_NAMED) names.push(`${objects.length - MAX_NAMED} more`);
  return names.join(' and ');
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
