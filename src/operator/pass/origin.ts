// An object and the resource that another object of its kind, namespace and name had before it: an object that was made
// again finds by its origin what the earlier one had, also in a cluster that was rebuilt. The API keeps the origin, and
// takes it from the operator alone, so that no status can forge it (docs/contract/kubernetes.md, "Identity").
import { isDeepStrictEqual } from 'node:util';
import { ApiProblem } from '../../client/api-problem.ts';
import type { Origin } from '../../domain/origin.ts';
import type { KubeObject } from '../../kube/kube-object.ts';
import type { OperatorContext } from '../operator-context.ts';
import {
  type Claim,
  findHolders,
  idOf,
  isNamedByAnother,
  isOwnId,
  type ResourceRef,
  statusIdOf,
} from './identity.ts';
import type { Claimant, Desired, Kind, KnownOrigin, Pass, Work } from './kind.ts';
import type { ReconciledObject } from './object.ts';
import { fieldsToRecord } from './recorded-fields.ts';

/** The object as the origin of its resource. */
export function objectOrigin<Name extends Origin['kind']>(
  kind: Name,
  { object, uid, ownedFields = [] }: Claimant<KubeObject>,
) {
  const { namespace = '', name } = object.metadata;
  return { kind, namespace, name, uid, ownedFields: [...ownedFields] };
}

/** As a creation states it. */
export function newOrigin<Name extends Origin['kind']>(
  kind: Name,
  object: KubeObject,
  { ownedFields }: Desired,
) {
  const { uid = '' } = object.metadata;
  return objectOrigin(kind, { object, uid, ownedFields: fieldsToRecord([], ownedFields) });
}

/** True if the resource stands for an object of this kind, namespace and name. */
export function isFrom(origin: Origin | undefined, { kind, metadata }: KubeObject): boolean {
  return origin?.kind === kind && origin?.namespace === metadata.namespace && origin?.name === metadata.name;
}

/** True if the API says that the resource stands for another object than this one, be it of the same name. */
export function isOfAnother(origin: KnownOrigin | undefined, { metadata }: KubeObject): boolean {
  return origin?.uid !== undefined && origin.uid !== metadata.uid;
}

/**
 * The id that an object claims. One that lost its annotation, as by a tool that replaces whole objects, finds by its
 * origin what it took over: the status only says where to look. Throws ApiProblem.
 */
export async function findClaimedId<O extends ReconciledObject, D extends Desired, E>(
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
  projectId: string | undefined,
): Promise<string> {
  const { object } = pass;
  const { identity } = kind;
  const claimed = idOf(identity, object);
  const former = statusIdOf(identity, object);
  const isStated = Boolean(object.metadata.annotations?.[identity.annotation]);
  if (isStated || projectId === undefined || former === undefined || former === claimed) return claimed;
  return (await findFrom(kind, pass, { projectId, id: former })) === undefined ? claimed : former;
}

/** The resource, as read, if it stands for an object of this kind, namespace and name. Throws ApiProblem. */
export async function findFrom<O extends ReconciledObject, D extends Desired, E>(
  kind: Kind<O, D, E>,
  { object, signal }: Pass<O, D, E>,
  ref: ResourceRef,
): Promise<E | undefined> {
  const external = kind.connect({ ...ref, uid: object.metadata.uid ?? '', signal });
  const isThere = await kind.observe(external, object);
  return isThere && isFrom(kind.originOf(external), object) ? external : undefined;
}

/**
 * The resource to take over after the API refused a creation because that has the origin: only for an object of its own
 * id, because a stated id comes first, and only if no other object names the resource. Undefined: the object gets a
 * resource of its own, and the origin with it. Throws ApiProblem.
 */
export async function findEarlier<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  { object, desired, signal }: Work<O, D, E>,
  id: string,
): Promise<string | undefined> {
  if (!isOwnId(kind.identity, object, desired.id)) return undefined;
  const { projectId } = desired;
  if (await isNamedByAnother(context, kind, { object, projectId, id })) return undefined;
  const external = kind.connect({ projectId, id, uid: object.metadata.uid ?? '', signal });
  const isThere = await kind.observe(external, object);
  return isThere && kind.canTakeOver(external, object) ? id : undefined;
}

/**
 * Like `findHolders`, but of several objects that have the resource by their status the one that the API names is right.
 * Throws ApiProblem.
 */
export async function resolveHolders<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  { object, signal }: Pass<O, D, E>,
  { id, projectId }: Pick<Claim<O>, 'id' | 'projectId'>,
): Promise<readonly O[]> {
  const holders = findHolders(context, kind, { object, id, projectId });
  if (holders.length < 2 || projectId === undefined) return holders;
  const external = kind.connect({ projectId, id, uid: object.metadata.uid ?? '', signal });
  if (!(await kind.observe(external, object))) return holders;
  const origin = kind.originOf(external);
  const named = holders.filter((holder) => isFrom(origin, holder));
  return named.length === 1 ? named : holders;
}

/** The id of what has the origin, if that is why the API refused the creation. */
export function originHolderOf(error: unknown): string | undefined {
  if (!(error instanceof ApiProblem) || error.code !== 'service.origin_taken') return undefined;
  return error.monitorId ?? error.endpointId;
}

/**
 * Gives the resource to the object, and records the fields that it is about to set, before any of them is: an object that
 * is made again gives up what earlier ones of its name have set. True if an object of that name had it before.
 */
export async function settleOrigin<O extends ReconciledObject, D extends Desired, E>(
  kind: Kind<O, D, E>,
  work: Work<O, D, E>,
  isTakenOver: boolean,
): Promise<boolean> {
  const { object, external, desired } = work;
  const { uid = '' } = object.metadata;
  const origin = kind.originOf(external);
  const isKnown = isFrom(origin, object);
  const recorded = isKnown ? (origin?.ownedFields ?? []) : [];
  work.ownedBefore = [...(object.status?.ownedFields ?? []), ...(isTakenOver ? recorded : [])];
  const ownedFields = fieldsToRecord(recorded, desired.ownedFields);
  // A resource that was taken over is given again after a crash: the same object changes nothing.
  if (!isKnown || isTakenOver) await kind.setOrigin(external, { object, uid, ownedFields });
  else if (!isDeepStrictEqual(ownedFields, recorded)) {
    // An object of this name in another cluster may have taken it over: it is not taken back, or they would never end.
    await kind.setOrigin(external, { object, uid: origin?.uid ?? uid, ownedFields });
  }
  return isKnown;
}

/** The resource stands for no object any more. Leaves what another object has. Throws ApiProblem. */
export async function releaseOrigin<O extends ReconciledObject, D extends Desired, E>(
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
  ref: ResourceRef,
): Promise<void> {
  const external = await findFrom(kind, pass, ref);
  if (external === undefined || isOfAnother(kind.originOf(external), pass.object)) return;
  await kind.setOrigin(external, undefined);
}
