// The Callback as an object of the cluster: its type, its place in the API, its indexes. No decisions.

import type {
  CallbackResourceSpec,
  CallbackResourceStatus,
} from '../../../contract/crd/callback-resource.ts';
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import { findCondition } from '../../../kube/conditions.ts';
import type { KubeObject, KubeResource } from '../../../kube/kube-object.ts';
import { ObjectStore } from '../../../kube/object-store.ts';
import { endpointIdOf } from '../../resources/identity.ts';
import { withoutBookkeeping } from '../../resources/without-bookkeeping.ts';

export interface CallbackObject extends KubeObject {
  spec: CallbackResourceSpec;
  status?: CallbackResourceStatus;
}

export const CALLBACKS: KubeResource<CallbackObject> = {
  ...CUSTOM_RESOURCES.Callback,
  transform: withoutBookkeeping,
};

/**
 * A cache with the indexes `id` (the endpoint that an object claims), `organizationDefault` (`true`: it asks for that)
 * and `waitsForAlias` (`true`: another one has its alias).
 */
export function createCallbackStore(): ObjectStore<CallbackObject> {
  return new ObjectStore<CallbackObject>({
    indexes: {
      id: (object) => [endpointIdOf(object)],
      organizationDefault: ({ spec }) => (spec.organizationDefault ? ['true'] : []),
      waitsForAlias: ({ status }) =>
        findCondition(status?.conditions, 'Ready')?.reason === 'AliasConflict' ? ['true'] : [],
    },
  });
}
