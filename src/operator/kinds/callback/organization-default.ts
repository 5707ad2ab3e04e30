// The organization's default endpoint: the oldest Callback that asks and may keeps it; who lets go of it clears it.
import { randomUUID } from 'node:crypto';
import { findCondition } from '../../../kube/conditions.ts';
import { objectKey } from '../../../kube/kube-object.ts';
import type { ObjectCache } from '../../known/object-cache.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { compareAge } from '../../pass/identity.ts';
import type { CallbackObject, CallbackWork } from './callback-object.ts';

export type DefaultRank =
  | { state: 'not_asked' | 'not_allowed' | 'first' }
  /** `holder`: the `namespace/name` of the oldest. */
  | { state: 'older_exists'; holder: string };

/** `asking` are all Callbacks that ask, in any order; one that is being deleted does not count. */
export function rankDefault(
  object: CallbackObject,
  asking: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): DefaultRank {
  if (!object.spec.organizationDefault) return { state: 'not_asked' };
  if (!isAllowed(object, allowedNamespaces)) return { state: 'not_allowed' };
  const [oldest = object] = candidates(asking, allowedNamespaces);
  if (oldest.metadata.uid === object.metadata.uid) return { state: 'first' };
  return { state: 'older_exists', holder: objectKey(oldest) };
}

/** Those that ask and may, the oldest first. */
function candidates(
  asking: readonly CallbackObject[],
  allowedNamespaces: readonly string[],
): CallbackObject[] {
  return asking
    .filter(
      (object) => object.metadata.deletionTimestamp === undefined && isAllowed(object, allowedNamespaces),
    )
    .toSorted(compareAge);
}

function isAllowed({ metadata }: CallbackObject, allowedNamespaces: readonly string[]): boolean {
  return allowedNamespaces.includes(metadata.namespace ?? '');
}

/** What of the operator decides about the default. */
export interface DefaultContext extends Pick<OperatorContext, 'api' | 'bindings' | 'settings'> {
  /** With the index `organizationDefault`. */
  callbacks: ObjectCache<CallbackObject>;
}

export interface EnsuredDefault {
  rank: DefaultRank;
  /** It was somebody else's although the status says that it was this one. */
  isPutBack: boolean;
}

/** Gives, takes or leaves the default. Throws ApiProblem. */
export async function ensureDefault(
  context: DefaultContext,
  { object, desired, external }: CallbackWork,
): Promise<EnsuredDefault> {
  const { projectId, id: endpointId } = desired;
  const rank = rankDefault(object, asking(context), context.settings.defaultCallbackNamespaces);
  const { isOrganizationDefault } = external.endpoint;
  const gives = rank.state === 'first' && !isOrganizationDefault;
  // A spec that never said anything about it leaves it as it is.
  const letsGo =
    object.spec.organizationDefault === false ||
    (rank.state === 'not_asked' && object.status?.ownedFields?.includes('organizationDefault')) ||
    (rank.state === 'not_allowed' && wasOurs(object));
  if (gives) await setDefault(context, { projectId, endpointId });
  else if (letsGo && isOrganizationDefault) await clearDefault(context, object, projectId);
  else return { rank, isPutBack: false };
  await external.read();
  return { rank, isPutBack: gives && object.status?.isOrganizationDefault === true };
}

/** The object gave the default itself, before its namespace lost the right to. */
function wasOurs({ status }: CallbackObject): boolean {
  return findCondition(status?.conditions, 'Default')?.status === 'True';
}

/** Clears the default, unless another Callback takes it in a moment. Throws ApiProblem. */
export async function clearDefault(
  context: DefaultContext,
  object: CallbackObject,
  projectId: string,
): Promise<void> {
  const others = candidates(asking(context), context.settings.defaultCallbackNamespaces);
  if (others.some((other) => other.metadata.uid !== object.metadata.uid)) return;
  await setDefault(context, { projectId, endpointId: null });
}

function asking({ callbacks }: DefaultContext): CallbackObject[] {
  return callbacks.listBy('organizationDefault', 'true');
}

/** It says how things are, so that duplicates do no harm: the key need not be the same. */
async function setDefault(
  { api, bindings }: DefaultContext,
  { projectId, endpointId }: { projectId: string; endpointId: string | null },
): Promise<void> {
  const request = { body: { endpointId }, idempotencyKey: randomUUID() };
  await api.call('setDefaultCallback', request, { project: projectId });
  bindings.clear();
}
