// The end of a Callback: its endpoint is removed or left.

import { isGone } from '../../../client/api-problem.ts';
import { type OperatorContext, projectNameOf, recordEvent } from '../../operator-context.ts';
import { findHolder, hasConflictingClaim } from '../../pass/conflicting-claims.ts';
import { finalizeObject } from '../../pass/finalize-object.ts';
import { endpointIdOf, ownId } from '../../resources/identity.ts';
import { ANNOTATION } from '../../resources/names.ts';
import { clearDefault } from './callback-default.ts';
import { CallbackHandle } from './callback-handle.ts';
import { CALLBACKS, type CallbackObject } from './callback-object.ts';
import { signingSecretNameOf } from './wanted-callback.ts';

/** Throws ApiProblem while the API does not let the endpoint go, unless the object is forced; KubeError. */
export async function finalizeCallback(
  context: OperatorContext,
  object: CallbackObject,
  signal?: AbortSignal,
): Promise<void> {
  await finalizeObject(
    context,
    { resource: CALLBACKS, object },
    {
      leave: () => leaveEndpointOf(context, object, signal),
      secretNames: [signingSecretNameOf(object), object.status?.signingSecretRef?.name],
    },
  );
}

async function leaveEndpointOf(
  context: OperatorContext,
  object: CallbackObject,
  signal: AbortSignal | undefined,
): Promise<void> {
  await leaveFormerEndpoint(context, object, { endpointId: endpointIdOf(object), signal });
  if (object.spec.deletionPolicy === 'Orphan' || !isOurs(context, object)) return;
  const projectId = object.status?.projectId ?? (await context.projects.find(projectNameOf(context, object)));
  if (projectId === undefined) return;
  await leaveEndpoint(context, object, { projectId, endpointId: endpointIdOf(object), signal });
}

/** An object that never had the endpoint which it names, or lost it to another object, takes nothing away. */
function isOurs(context: OperatorContext, object: CallbackObject): boolean {
  if (object.metadata.annotations?.[ANNOTATION.endpointId] === undefined) return false;
  const id = endpointIdOf(object);
  if (!id.startsWith(ownId('cb', object)) && object.status?.endpointId !== id) return false;
  return findHolder(context, { store: context.callbacks, object, id }) === object;
}

/** As `leaveFormerMonitor`: else the former endpoint would keep the alias. Throws ApiProblem. */
export async function leaveFormerEndpoint(
  context: OperatorContext,
  object: CallbackObject,
  { endpointId, signal }: { endpointId: string; signal?: AbortSignal },
): Promise<void> {
  const { projectId, endpointId: former } = object.status ?? {};
  if (projectId === undefined || former === undefined || former === endpointId) return;
  if (hasConflictingClaim(context, { store: context.callbacks, object, id: former })) return;
  await leaveEndpoint(context, object, { projectId, endpointId: former, signal });
}

/** Removes an endpoint, and with it the default where it is that. Fine if it is gone. Throws ApiProblem. */
export async function leaveEndpoint(
  context: OperatorContext,
  object: CallbackObject,
  name: { projectId: string; endpointId: string; signal?: AbortSignal },
): Promise<void> {
  if (object.spec.deletionPolicy === 'Orphan') return;
  const handle = new CallbackHandle(context.api, { ...name, uid: object.metadata.uid ?? '' });
  const endpoint = await handle.read();
  if (endpoint === undefined) return;
  if (endpoint.isOrganizationDefault) await clearDefault(context, object, name.projectId);
  try {
    await handle.remove();
    recordEvent(context, object, 'Deleted', `Removed the callback endpoint ${name.endpointId}.`);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}
