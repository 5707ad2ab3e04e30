// The Callback as an object of the cluster: its type, its resource, its identity.
import type {
  CallbackResourceSpec,
  CallbackResourceStatus,
} from '../../../contract/crd/callback-resource.ts';
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../../kube/kube-object.ts';
import type { Identity } from '../../pass/object.ts';
import { ANNOTATION } from '../../resources/names.ts';

export interface CallbackObject extends KubeObject {
  spec: CallbackResourceSpec;
  status?: CallbackResourceStatus;
}

export const CALLBACKS: KubeResource<CallbackObject> = {
  ...CUSTOM_RESOURCES.Callback,
  transform: withoutBookkeeping,
};

export const CALLBACK_IDENTITY: Identity = {
  noun: 'callback endpoint',
  annotation: ANNOTATION.endpointId,
  prefix: 'cb',
  isNumbered: true,
  statusField: 'endpointId',
};

export type LastRotation = NonNullable<CallbackObject['status']>['lastRotation'];

/** Whether a Callback provides the organization's default endpoint. */
export type DefaultRank =
  | { state: 'not_asked' | 'not_allowed' | 'first' }
  /** `holder`: `namespace/name` of the oldest. */
  | { state: 'older_exists'; holder: string };
