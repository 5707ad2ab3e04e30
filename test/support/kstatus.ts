// What tools that wait for objects (Flux, kpt, Argo CD's and Helm's health checks of custom resources) take an object for:
// the rules of kstatus for kinds that it does not know.
import type { KubeCondition } from '../../src/kube/conditions.ts';
import type { KubeObject } from '../../src/kube/kube-object.ts';

export type KStatus = 'Terminating' | 'InProgress' | 'Failed' | 'Current';

interface Watched extends KubeObject {
  status?: { observedGeneration?: number; conditions?: readonly KubeCondition[] };
}

export function kstatusOf({ metadata, status }: Watched): KStatus {
  if (metadata.deletionTimestamp !== undefined) return 'Terminating';
  const { observedGeneration, conditions = [] } = status ?? {};
  if (observedGeneration !== undefined && observedGeneration !== metadata.generation) return 'InProgress';
  const isTrue = (wanted: string) =>
    conditions.some(({ type, status: value }) => type === wanted && value === 'True');
  if (isTrue('Reconciling')) return 'InProgress';
  if (isTrue('Stalled')) return 'Failed';
  const hasReady = conditions.some(({ type }) => type === 'Ready');
  return !hasReady || isTrue('Ready') ? 'Current' : 'InProgress';
}
