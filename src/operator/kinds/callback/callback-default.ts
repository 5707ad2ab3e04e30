// The organization's default endpoint: the oldest Callback that asks and may keeps it; who lets go of it clears it.
import { randomUUID } from 'node:crypto';
import { findCondition } from '../../../kube/conditions.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { recordDifferences } from '../../pass/record-differences.ts';
import type { CallbackHandle } from './callback-handle.ts';
import type { CallbackObject } from './callback-object.ts';
import { candidates, type DefaultRank, rankDefault } from './default-callback.ts';
import type { WantedCallback } from './wanted-callback.ts';

export interface DefaultFacts {
  object: CallbackObject;
  wanted: WantedCallback;
  handle: CallbackHandle;
}

/** Throws ApiProblem. */
export async function ensureDefault(context: OperatorContext, facts: DefaultFacts): Promise<DefaultRank> {
  const { object, wanted, handle } = facts;
  const { projectId, endpointId } = wanted;
  const rank = rankDefault(object, asking(context), context.settings.defaultCallbackNamespaces);
  const { isOrganizationDefault } = handle.endpoint;
  if (rank.state === 'first' && !isOrganizationDefault) {
    await setDefault(context, { projectId, endpointId });
    if (object.status?.isOrganizationDefault)
      recordDifferences(context, object, { fields: ['organizationDefault'], isChanged: false });
    await handle.read();
  }
  // A spec that never said anything about it leaves it as it is.
  const letsGo =
    object.spec.organizationDefault === false ||
    (rank.state === 'not_asked' && object.status?.ownedFields?.includes('organizationDefault')) ||
    (rank.state === 'not_allowed' && wasOurs(object));
  if (letsGo && isOrganizationDefault) {
    await clearDefault(context, object, projectId);
    await handle.read();
  }
  return rank;
}

/** The object gave the default itself, before its namespace lost the right to. */
function wasOurs({ status }: CallbackObject): boolean {
  return findCondition(status?.conditions, 'Default')?.status === 'True';
}

/** Clears the default, unless another Callback takes it in a moment. Throws ApiProblem. */
export async function clearDefault(
  context: OperatorContext,
  object: CallbackObject,
  projectId: string,
): Promise<void> {
  const others = candidates(asking(context), context.settings.defaultCallbackNamespaces);
  if (others.some((other) => other.metadata.uid !== object.metadata.uid)) return;
  await setDefault(context, { projectId, endpointId: null });
}

function asking({ callbacks }: OperatorContext): CallbackObject[] {
  return callbacks.listBy('organizationDefault', 'true');
}

/** It says how things are, so that duplicates do no harm: the key need not be the same. */
async function setDefault(
  { api, bindings }: OperatorContext,
  { projectId, endpointId }: { projectId: string; endpointId: string | null },
): Promise<void> {
  const request = { body: { endpointId }, idempotencyKey: randomUUID() };
  await api.call('setDefaultCallback', request, { project: projectId });
  bindings.clear();
}
