// The end of an object, the same for every kind: what stands for it at the API, then its Secrets, then the finalizer.

import { ApiProblem } from '../../client/api-problem.ts';
import { FINALIZER } from '../../contract/crd/custom-resources.ts';
import { removeFinalizer } from '../../kube/finalizers.ts';
import { hasFinalizer } from '../../kube/kube-object.ts';
import type { OperatorContext } from '../operator-context.ts';
import { ANNOTATION } from '../resources/names.ts';
import { deleteOwnedSecret, type SecretOwner } from './owned-secret.ts';

export interface Ending {
  /** Lets go of what stands for the object at the API. Fine if it is gone. */
  leave(): Promise<void>;
  /** As the spec names it and as the status does. */
  secretNames: readonly (string | undefined)[];
}

/** Throws ApiProblem while the API does not let go, unless the object is forced; KubeError. */
export async function finalizeObject(
  context: OperatorContext,
  { resource, object }: SecretOwner,
  { leave, secretNames }: Ending,
): Promise<void> {
  if (!hasFinalizer(object, FINALIZER)) return;
  await unlessForced(context, object, leave);
  for (const name of new Set(secretNames)) {
    if (name !== undefined) await deleteOwnedSecret(context.kube, { resource, object }, name);
  }
  await removeFinalizer(context.kube, resource, object, FINALIZER);
}

/** With `force-delete` what the API says, or that it says nothing, holds nobody up. */
async function unlessForced(
  { log }: OperatorContext,
  { metadata }: SecretOwner['object'],
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    const isForced = metadata.annotations?.[ANNOTATION.forceDelete] === 'true';
    if (!isForced || !(error instanceof ApiProblem)) throw error;
    const { namespace, name } = metadata;
    log.warn({ err: error, namespace, name }, 'Let an object go without the API: it is forced.');
  }
}
