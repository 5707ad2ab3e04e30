// What a Monitor wants of the API: its spec with the defaults that its own metadata gives. Pure.

import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import { contentHash } from '../../resources/content-hash.ts';
import { defaultAlias, defaultLabels, defaultName } from '../../resources/defaults.ts';
import { SECRET_SUFFIX } from '../../resources/names.ts';
import type { MonitorObject } from './monitor-object.ts';

type Spec = MonitorObject['spec'];

export interface WantedMonitor {
  monitorId: string;
  projectId: string;
  spec: Spec;
  /** What the monitor is called where the spec says nothing. */
  defaultName: string;
  labels: Record<string, string>;
  /** Undefined: the spec says nothing about it. */
  binding: Binding | undefined;
  secretName: string;
  /** Of everything that the API is told: two objects that want the same have the same. */
  hash: string;
}

export interface WantedMonitorFacts {
  monitorId: string;
  projectId: string;
  /** The alias of the Callback that `callbackRef` names; undefined while there is no such object. */
  alias: string | undefined;
}

export function wantedMonitor(object: MonitorObject, facts: WantedMonitorFacts): WantedMonitor {
  const { metadata } = object;
  const spec = asStored(object.spec);
  const labels = spec.labels ?? defaultLabels(object);
  const wanted = {
    monitorId: facts.monitorId,
    projectId: facts.projectId,
    defaultName: defaultName(metadata.name),
    labels,
    binding: wantedBinding(spec, facts.alias),
    secretName: publishSecretNameOf(object),
  };
  // The policy is of this object's end alone, and the workload is not looked at.
  const { deletionPolicy: _policy, workloadRef: _workload, callback: _callback, ...told } = spec;
  return { ...wanted, spec, hash: contentHash({ ...wanted, told }) };
}

/** As the API will give it back: text trimmed of every kind of blank, and no negative zero. */
function asStored(spec: Spec): Spec {
  const stored: Spec = JSON.parse(JSON.stringify(spec), (_key, value: unknown) =>
    typeof value === 'string' ? value.trim() : value,
  );
  return stored;
}

export function publishSecretNameOf({ spec, metadata }: MonitorObject): string {
  return spec.publishSecretName ?? `${metadata.name}${SECRET_SUFFIX.monitor}`;
}

/** Before the Callback is there its default alias stands for it: the binding resolves as soon as it is made. */
function wantedBinding({ callback }: Spec, alias: string | undefined): Binding | undefined {
  if (callback === undefined) return undefined;
  switch (callback.kind) {
    case 'named':
      return {
        kind: 'named',
        alias: callback.alias ?? alias ?? defaultAlias(callback.callbackRef?.name ?? ''),
      };
    case 'inline':
      return { kind: 'inline', url: callback.url ?? '' };
    default:
      return { kind: callback.kind };
  }
}

/** The body of POST /v1/monitors. Measurements, lifecycle and maintenance are set afterwards. */
export function createMonitorBodyOf(wanted: WantedMonitor): OperationRequest<'createMonitor'>['body'] {
  const { spec } = wanted;
  return {
    monitorId: wanted.monitorId,
    name: spec.name ?? wanted.defaultName,
    description: spec.description,
    labels: wanted.labels,
    intervalSeconds: spec.intervalSeconds,
    schedule: spec.schedule,
    graceSeconds: spec.graceSeconds,
    jurisdiction: spec.jurisdiction,
    callback: wanted.binding,
    awaitFirstBeat: spec.awaitFirstBeat,
    maxRuntimeSeconds: spec.maxRuntimeSeconds,
    recoveryBeats: spec.recoveryBeats,
    missedBeatsToOpen: spec.missedBeatsToOpen,
  };
}

/** The window of the spec, unless it is over (docs/contract/kubernetes.md: then it is ignored). */
export function currentMaintenance({ maintenance }: Spec, nowMs: number): Spec['maintenance'] {
  return maintenance !== undefined && Date.parse(maintenance.endsAt) > nowMs ? maintenance : undefined;
}
