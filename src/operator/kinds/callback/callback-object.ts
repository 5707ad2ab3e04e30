// The Callback as an object of the cluster: its type, its resource, its identity.
import type {
  CallbackResourceSpec,
  CallbackResourceStatus,
} from '../../../contract/crd/callback-resource.ts';
import { CUSTOM_RESOURCES } from '../../../contract/crd/custom-resources.ts';
import { type KubeObject, type KubeResource, withoutBookkeeping } from '../../../kube/kube-object.ts';
import type { Identity, Pass, Work } from '../../pass/kind.ts';
import { ANNOTATION } from '../../resources/names.ts';
import type { DesiredCallback } from './desired-callback.ts';
import type { ExternalCallback } from './external-callback.ts';

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

export type CallbackPass = Pass<CallbackObject, DesiredCallback, ExternalCallback>;
export type CallbackWork = Work<CallbackObject, DesiredCallback, ExternalCallback>;
