// The Monitor as an object of the cluster: its type, its resource, its identity.
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import type { MonitorResourceSpec, MonitorResourceStatus } from '../../../contract/crd/monitor-resource.ts';
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../../kube/kube-object.ts';
import type { Identity } from '../../pass/object.ts';
import { ANNOTATION } from '../../resources/names.ts';

export interface MonitorObject extends KubeObject {
  spec: MonitorResourceSpec;
  status?: MonitorResourceStatus;
}

export type MonitorStatusFields = NonNullable<MonitorObject['status']>;

export const MONITORS: KubeResource<MonitorObject> = {
  ...CUSTOM_RESOURCES.Monitor,
  transform: withoutBookkeeping,
};

export const MONITOR_IDENTITY: Identity = {
  noun: 'monitor',
  annotation: ANNOTATION.monitorId,
  prefix: 'mon',
  isNumbered: false,
  statusField: 'monitorId',
};
