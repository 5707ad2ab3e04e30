// What the status of an object says once its release is uninstalled. Pure. A new install writes it anew.
import { findCondition, type KubeCondition, setCondition } from '../kube/conditions.ts';
import type { KubeObject } from '../kube/kube-object.ts';

export interface OurStatus {
  health?: string;
  conditions?: KubeCondition[];
}

export interface OurObject extends KubeObject {
  status?: OurStatus;
}

const NOT_INSTALLED = {
  status: 'Unknown',
  reason: 'NotInstalled',
  message:
    'Beatkeeper was uninstalled: nothing keeps this status up to date, and nobody is alerted, until it is installed again.',
} as const;

export function isNotInstalled({ conditions }: OurStatus): boolean {
  return findCondition(conditions, 'Synced')?.reason === NOT_INSTALLED.reason;
}

/** The fields to change: what held for the moment only is unknown from now on. */
export function notInstalledStatus({ status }: OurObject, nowMs: number): OurStatus {
  const { health, conditions = [] } = status ?? {};
  const moment = { generation: findCondition(conditions, 'Synced')?.observedGeneration, nowMs };
  const types = new Set(['Synced', ...conditions.map(({ type }) => type)]);
  return {
    ...(health === undefined ? {} : { health: 'unknown' }),
    conditions: [...types].reduce(
      (all, type) => setCondition(all, { type, ...NOT_INSTALLED }, moment),
      conditions,
    ),
  };
}
