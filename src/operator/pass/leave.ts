// Ends resources that an object no longer stands for: a former one, and its own when the object is deleted. The status
// only says where to look (docs/contract/kubernetes.md, "What the status may say"): what is ended has an id that follows
// from the object's UID, or is named by the annotation in the project of the namespace.
import { isGone } from '../../client/api-problem.ts';
import { UUID_PATTERN } from '../../domain/id.ts';
import { nameOfOrigin } from '../../domain/origin.ts';
import { readProjectName } from '../known/project-directory.ts';
import type { OperatorContext } from '../operator-context.ts';
import { hasHad, isNamedByAnother, isOwnId, nameSome, type ResourceRef, statusIdOf } from './identity.ts';
import type { Desired, Kind, Pass } from './kind.ts';
import type { ReconciledObject } from './object.ts';
import { findClaimedId, findFrom, isOfAnother, releaseOrigin, resolveHolders } from './origin.ts';

/** The resource of the last pass by the status, if it is another one than `current`; its id may be unknown. */
export function formerOf<O extends ReconciledObject, D extends Desired, E>(
  { identity }: Pick<Kind<O, D, E>, 'identity'>,
  object: O,
  current: ResourceRef | undefined,
): { projectId: string; id: string | undefined } | undefined {
  const projectId = object.status?.projectId;
  // It becomes a header of the next calls.
  if (projectId === undefined || !UUID_PATTERN.test(projectId)) return undefined;
  const id = statusIdOf(identity, object);
  const isSame = projectId === current?.projectId && (id === undefined || id === current.id);
  return isSame ? undefined : { projectId, id };
}

/**
 * The namespace was given to another project, or the annotation names another id: without an object the former resource
 * would alert for ever. One that was taken over stays, because only the status says that it was this object's. So does one
 * that another object names.
 */
export async function leaveFormer<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
  current: ResourceRef | undefined,
): Promise<void> {
  const { object } = pass;
  const { projectId, id } = formerOf(kind, object, current) ?? {};
  if (projectId === undefined || id === undefined) return;
  if (await isNamedByAnother(context, kind, { object, projectId, id })) return;
  const isOrphan = object.spec.deletionPolicy === 'Orphan';
  if (isOwnId(kind.identity, object, id) && !isOrphan) return await end(kind, pass, { projectId, id });
  await releaseOrigin(kind, pass, { projectId, id });
  if (isOrphan) return;
  const note = `Left the ${kind.identity.noun} ${id} of the project ${projectId} as it is, because it was not made for this object: end it through the API if nobody needs it.`;
  kind.events.record(object, 'Released', note);
}

/** Ends what the deleted object stands for, and what it stood for before. */
export async function leaveAll<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
): Promise<void> {
  const { object } = pass;
  const { namespace = '' } = object.metadata;
  const name = await readProjectName(context, object);
  // Where the namespace may not belong to the project, the annotation names nothing of it.
  const isAllowed = context.sharedProjects.allows(namespace, name);
  const projectId = isAllowed ? await context.projects.find(name) : undefined;
  const id = await findClaimedId(kind, pass, projectId);
  const current = projectId === undefined ? undefined : { projectId, id };
  await leaveFormer(context, kind, pass, current);
  if (current === undefined) return;
  if (object.spec.deletionPolicy === 'Orphan') return await releaseOrigin(kind, pass, current);
  if (await isOurs(context, kind, pass, current)) await end(kind, pass, current);
}

/**
 * False if the object never had the resource that it names, or lost it to another object: then it ends nothing. An Event
 * says so where the statuses of several objects name the resource, because then nobody ends it.
 */
async function isOurs<O extends ReconciledObject, D extends Desired, E>(
  context: OperatorContext,
  kind: Kind<O, D, E>,
  pass: Pass<O, D, E>,
  ref: ResourceRef,
): Promise<boolean> {
  const { object } = pass;
  const isGiven = isOwnId(kind.identity, object, ref.id) || hasHad(kind.identity, object, ref);
  if (!isGiven && (await findFrom(kind, pass, ref)) === undefined) return false;
  const holders = await resolveHolders(context, kind, pass, ref);
  if (holders.length === 1) return holders[0] === object;
  const { noun } = kind.identity;
  const note = `Left the ${noun} ${ref.id} as it is, because ${nameSome(holders)} say that they stand for it.`;
  kind.events.record(object, 'Conflict', note);
  return false;
}

/**
 * As the deletion policy says. Accepts that it is gone. What another object has taken over, as one of the same name in a
 * new cluster beside this one, is left as it is; the version of the read guards it against a takeover since. Throws
 * ApiProblem.
 */
async function end<O extends ReconciledObject, D extends Desired, E>(
  kind: Kind<O, D, E>,
  { object, signal }: Pass<O, D, E>,
  ref: ResourceRef,
): Promise<void> {
  const external = kind.connect({ ...ref, uid: object.metadata.uid ?? '', signal });
  if (!(await kind.observe(external, object))) return;
  const origin = kind.originOf(external);
  if (origin !== undefined && isOfAnother(origin, object)) {
    const note = `Left the ${kind.identity.noun} ${ref.id} as it is, because another object has taken it over: ${nameOfOrigin(origin)} with another UID.`;
    return kind.events.record(object, 'Released', note);
  }
  try {
    await kind.delete(external, object);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}
