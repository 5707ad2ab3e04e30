// The objects of users as the operator has them: without what only the API server and kubectl keep in them.
import { type KubeObject, withoutManagedFields } from '../../kube/kube-object.ts';

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** kubectl's copy of the object would double what the cache holds. */
export function withoutBookkeeping<T extends KubeObject>(raw: T): T {
  const object = withoutManagedFields(raw);
  const { annotations } = object.metadata;
  if (annotations?.[LAST_APPLIED] === undefined) return object;
  const { [LAST_APPLIED]: _dropped, ...kept } = annotations;
  return { ...object, metadata: { ...object.metadata, annotations: kept } };
}
