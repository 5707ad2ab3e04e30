// The organization's default endpoint: the oldest Callback that requests it in an allowed namespace provides it.
import { randomUUID } from 'node:crypto';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import { findCondition } from '../../../kube/conditions.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { compareAge } from '../../pass/identity.ts';
import type { CallbackObject, DefaultRank } from './callback-object.ts';
import type { CallbackWork } from './callback-work.ts';

/** `requesting`: all Callbacks that request the default, in any order. A deleted one does not count. */
export function rankDefault(
  object: CallbackObject,
  requesting: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): DefaultRank {
  if (!object.spec.organizationDefault) return { state: 'not_asked' };
  if (!isAllowed(object, allowedNamespaces)) return { state: 'not_allowed' };
  const [oldest = object] = candidates(requesting, allowedNamespaces);
  if (oldest.metadata.uid === object.metadata.uid) return { state: 'first' };
  return { state: 'older_exists', holder: objectKey(oldest) };
}

/** Those in an allowed namespace, the oldest first. */
function candidates(
  requesting: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): CallbackObject[] {
  return requesting
    .filter(
      (object) => object.metadata.deletionTimestamp === undefined && isAllowed(object, allowedNamespaces),
    )
    .toSorted(compareAge);
}

/** The namespace may provide the default. */
export function isAllowed({ metadata }: CallbackObject, allowedNamespaces: readonly string[]): boolean {
  return allowedNamespaces.includes(metadata.namespace ?? '');
}

/** The part of the context that decides about the default. */
export interface DefaultContext extends Pick<OperatorContext, 'api' | 'bindings' | 'settings'> {
  /** With the index `organizationDefault`. */
  callbacks: ObjectCache<CallbackObject>;
}

export interface EnsuredDefault {
  rank: DefaultRank;
  /** The default was changed through the API, and was restored. */
  isRestored: boolean;
}

/** Sets, clears or leaves the default. Throws ApiProblem. */
export async function ensureDefault(context: DefaultContext, work: CallbackWork): Promise<EnsuredDefault> {
  const { object, desired, external } = work;
  const { projectId, id: endpointId } = desired;
  const rank = rankDefault(object, requesting(context), context.settings.defaultCallbackNamespaces);
  const { isOrganizationDefault } = external.endpoint;
  const gives = rank.state === 'first' && !isOrganizationDefault;
  if (gives) await setDefault(context, projectId, { endpointId });
  else if (isOrganizationDefault && givesUp(work, rank, context.settings.defaultCallbackNamespaces))
    await clearDefault(context, object, { projectId, endpointId });
  else return { rank, isRestored: false };
  await external.read();
  return { rank, isRestored: gives && object.status?.isOrganizationDefault === true };
}

/** A spec that never set organizationDefault leaves the default alone, and so does every spec of another namespace. */
function givesUp(
  { object, ownedBefore = [] }: CallbackWork,
  rank: DefaultRank,
  allowedNamespaces: readonly string[],
): boolean {
  const { spec, status } = object;
  // It set the default before its namespace lost the permission. If that is forged, it gives up only its own endpoint.
  if (!isAllowed(object, allowedNamespaces))
    return findCondition(status?.conditions, 'Default')?.status === 'True';
  if (spec.organizationDefault === false) return true;
  return rank.state === 'not_asked' && ownedBefore.includes('organizationDefault');
}

/**
 * Clears the default, unless another Callback will set it. Throws ApiProblem: 412 if the object's endpoint is no longer
 * the default, because an owner has set another one since it was read.
 */
export async function clearDefault(
  context: DefaultContext,
  object: CallbackObject,
  { projectId, endpointId }: { projectId: string; endpointId: string },
): Promise<void> {
  const others = candidates(requesting(context), context.settings.defaultCallbackNamespaces);
  if (others.some((other) => other.metadata.uid !== object.metadata.uid)) return;
  await setDefault(context, projectId, { endpointId: null, expectedEndpointId: endpointId });
}

function requesting({ callbacks }: DefaultContext): CallbackObject[] {
  return callbacks.listBy('organizationDefault', 'true');
}

/** The call states the whole result, so a repeated call is harmless and needs no stable key. */
async function setDefault(
  { api, bindings }: DefaultContext,
  project: string,
  body: OperationRequest<'setDefaultCallback'>['body'],
): Promise<void> {
  await api.call('setDefaultCallback', { body, idempotencyKey: randomUUID() }, { project });
  bindings.clear({ projectId: undefined, isDefault: true });
}
