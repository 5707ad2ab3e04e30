// The Monitor as an object of the cluster: its type, its place in the API, its indexes. No decisions.
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import type { MonitorResourceSpec, MonitorResourceStatus } from '../../../contract/crd/monitor-resource.ts';
import { findCondition } from '../../../kube/conditions.ts';
import type { KubeObject, KubeResource } from '../../../kube/kube-object.ts';
import { ObjectStore } from '../../../kube/object-store.ts';
import { monitorIdOf } from '../../resources/identity.ts';
import { withoutBookkeeping } from '../../resources/without-bookkeeping.ts';

export interface MonitorObject extends KubeObject {
  spec: MonitorResourceSpec;
  status?: MonitorResourceStatus;
}

export const MONITORS: KubeResource<MonitorObject> = {
  ...CUSTOM_RESOURCES.Monitor,
  transform: withoutBookkeeping,
};

/** Reasons of `Ready` that another Callback, or a change of one, may end. */
const WAITING_FOR_CALLBACK = new Set([
  'CallbackNotFound',
  'NoOrganizationDefault',
  'EndpointDisabled',
  'CallbackUnknown',
]);

/**
 * A cache with the indexes `id` (the monitor that an object claims), `callbackRef` (`namespace/name`) and
 * `waitsForCallback` (`true`).
 */
export function createMonitorStore(): ObjectStore<MonitorObject> {
  return new ObjectStore<MonitorObject>({
    indexes: {
      id: (object) => [monitorIdOf(object)],
      callbackRef: ({ metadata, spec }) => {
        const name = spec.callback?.callbackRef?.name;
        return name === undefined ? [] : [`${metadata.namespace}/${name}`];
      },
      waitsForCallback: ({ status }) => {
        const reason = findCondition(status?.conditions, 'Ready')?.reason ?? '';
        return WAITING_FOR_CALLBACK.has(reason) ? ['true'] : [];
      },
    },
  });
}
