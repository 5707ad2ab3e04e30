// Nodes and ResourceQuotas as the caches keep them: of a node its name and whether it is ready.
import type { KubeObject, KubeResource } from '../../../kube/kube-object.ts';

interface NodeCondition {
  type: string;
  status: string;
}

export interface NodeObject extends KubeObject {
  status?: { conditions?: NodeCondition[] };
}

/** Only name and readiness: a cluster has thousands, and each is written again every few minutes. */
export const NODES: KubeResource<NodeObject> = {
  apiVersion: 'v1',
  kind: 'Node',
  plural: 'nodes',
  namespaced: false,
  transform: ({ metadata: { name, uid = '', resourceVersion = '' }, status }) => ({
    metadata: { name, uid, resourceVersion },
    status: {
      conditions: (status?.conditions ?? [])
        .filter(({ type }) => type === 'Ready')
        .map(({ type, status: value }) => ({ type, status: value })),
    },
  }),
};

/** `Unknown` is what the control plane writes of a node whose kubelet is silent. */
export function isReady({ status }: NodeObject): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}

export interface QuotaObject extends KubeObject {
  spec?: { scopes?: string[]; scopeSelector?: object };
  status?: { hard?: Record<string, string>; used?: Record<string, string> };
}

export const QUOTAS: KubeResource<QuotaObject> = {
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  plural: 'resourcequotas',
  namespaced: true,
  transform: ({ metadata: { name, namespace = '', uid = '', resourceVersion = '' }, spec, status }) => ({
    metadata: { name, namespace, uid, resourceVersion },
    spec: {
      ...(spec?.scopes === undefined ? {} : { scopes: spec.scopes }),
      ...(spec?.scopeSelector === undefined ? {} : { scopeSelector: spec.scopeSelector }),
    },
    status: { hard: status?.hard ?? {}, used: status?.used ?? {} },
  }),
};
