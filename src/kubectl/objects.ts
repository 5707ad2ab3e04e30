// The objects that the commands read: their types as far as the commands know them, and the resources.
import { CUSTOM_RESOURCES } from '../contract/crd/custom-resources.ts';
import type { MonitorResourceSpec, MonitorResourceStatus } from '../contract/crd/monitor-resource.ts';
import type { RuleResourceSpec, RuleResourceStatus } from '../contract/crd/rule-resource.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';

export interface MonitorObject extends KubeObject {
  spec: MonitorResourceSpec;
  status?: MonitorResourceStatus;
}

export interface RuleObject extends KubeObject {
  spec: RuleResourceSpec;
  status?: RuleResourceStatus;
}

export interface SecretObject extends KubeObject {
  data?: Record<string, string>;
}

export interface ServiceObject extends KubeObject {
  spec?: {
    selector?: Record<string, string>;
    ports?: { name?: string; port: number; targetPort?: number | string; appProtocol?: string }[];
  };
}

export interface PodObject extends KubeObject {
  spec?: { containers?: { ports?: { name?: string; containerPort: number }[] }[] };
  status?: { phase?: string; conditions?: { type: string; status: string }[] };
}

export const MONITORS: KubeResource<MonitorObject> = CUSTOM_RESOURCES.Monitor;
export const RULES: KubeResource<RuleObject> = CUSTOM_RESOURCES.Rule;

const CORE = { apiVersion: 'v1', namespaced: true } as const;
export const SECRETS: KubeResource<SecretObject> = { ...CORE, kind: 'Secret', plural: 'secrets' };
export const SERVICES: KubeResource<ServiceObject> = { ...CORE, kind: 'Service', plural: 'services' };
export const PODS: KubeResource<PodObject> = { ...CORE, kind: 'Pod', plural: 'pods' };
export const NAMESPACES: KubeResource = {
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
};

/** A condition of the status, if it has one of this type. */
export function conditionOf(
  { status }: { status?: { conditions?: readonly Condition[] } },
  type: string,
): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  observedGeneration?: number;
}
