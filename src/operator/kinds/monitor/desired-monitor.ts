// The desired state of a monitor: the spec of its object, with defaults from the metadata, and the fields that it owns. Pure.
import { MAX_LABELS } from '../../../contract/fields/field.ts';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import type { KubeObject } from '../../../kube/kube-object.ts';
import { contentHash, parseSpecHash } from '../../pass/desired-hash.ts';
import { defaultAlias, defaultName } from '../../pass/identity.ts';
import type { Desired } from '../../pass/kind.ts';
import { SECRET_SUFFIX } from '../../resources/names.ts';
import { type Workload, type WorkloadSpec, withWorkload } from '../../workloads/workload-of.ts';
import { type AppliedRule, type GivenRule, isSameRule } from '../rule/apply/given-rules.ts';
import type { WantedDependencies } from './dependencies-of-monitor.ts';
import {
  maintenanceTextIn,
  ownMaintenance,
  type WantedMaintenance,
  wantedMaintenance,
} from './maintenance-of-namespace.ts';
import type { MonitorObject } from './monitor-object.ts';

type Spec = MonitorObject['spec'];

export interface DesiredMonitor extends Desired {
  spec: Spec;
  /** The name of the monitor if the spec sets none. */
  defaultName: string;
  labels: Record<string, string>;
  /** Undefined: the spec does not set it. */
  binding: Binding | undefined;
  /** The window of the spec; undefined if it is over (docs/contract/kubernetes.md: then it is ignored). */
  maintenance: Spec['maintenance'];
  /** Of the spec and of the namespace. With a fault the monitor keeps what it has. */
  recurring: WantedMaintenance;
  dependencies: WantedDependencies;
  /** What Rules give to the monitor, beside the measurements of the spec. */
  rules: readonly GivenRule[];
  secretName: string;
  /** Undefined: the spec names none. */
  workload: Workload | undefined;
  /** Why its schedule is not taken. */
  workloadFault: WorkloadSpec['fault'];
  /** The operator that sends the beats; undefined: the job does. */
  beatenBy: string | undefined;
}

export interface DesiredMonitorFacts {
  id: string;
  projectId: string;
  /** The alias of the Callback that `callbackRef` names; undefined if there is no such object. */
  alias: string | undefined;
  rules: readonly GivenRule[];
  /** Undefined where the operator may not read it. */
  namespace: KubeObject | undefined;
  dependencies: WantedDependencies;
  /** Undefined: the spec names none. */
  workload?: Workload | undefined;
  /** The operator that sends the beats; undefined: the job does. */
  beatenBy?: string | undefined;
  /** Rules that the API has refused may be tried again. */
  isRetryDue: boolean;
  nowMs: number;
}

export function desiredMonitor(object: MonitorObject, facts: DesiredMonitorFacts): DesiredMonitor {
  const { metadata } = object;
  const { id, projectId, alias, rules, nowMs, workload } = facts;
  const owned = object.status?.ownedFields ?? [];
  const {
    spec,
    kept: ofWorkload,
    fault: workloadFault,
  } = withWorkload(asStored(object.spec), workload, owned);
  const derived = {
    defaultName: defaultName(workload?.ref.name ?? metadata.name),
    labels: withLabelsOf(workload?.object, spec.labels ?? defaultLabels(object)),
    binding: desiredBinding(spec, alias),
    secretName: publishSecretNameOf(object),
  };
  const { maintenance: window } = spec;
  const maintenance = window !== undefined && Date.parse(window.endsAt) > nowMs ? window : undefined;
  // The deletion policy concerns only the end of this object, and what the workload gives is in the spec by now.
  const { deletionPolicy: _policy, workloadRef: _workload, callback: _callback, ...told } = spec;
  // The names of the keys count: another name would have every object of a cluster applied again after an upgrade.
  const given = rules.length === 0 ? undefined : rules.map(hashedRule);
  const { namespace } = facts;
  const shared = maintenanceTextIn(namespace);
  const { beatenBy, dependencies } = facts;
  const { ids } = dependencies;
  const hash = contentHash({ monitorId: id, projectId, ...derived, told, given, shared, beatenBy, ids });
  const recurring = wantedMaintenance(spec.maintenanceSchedules, namespace);
  const found = { workload, workloadFault, beatenBy, dependencies };
  const desired = { id, projectId, ...derived, ...found, spec, maintenance, recurring, rules, hash };
  // What the API has refused, and is not asked for now, is not the object's.
  const isTried = facts.isRetryDue || parseSpecHash(object.status?.specHash).desired !== hash;
  const had = isTried ? rules : rules.filter((one) => !isRefused(object, one));
  const hasSchedules =
    spec.maintenanceSchedules !== undefined || object.status?.ownedFields?.includes(SCHEDULES);
  const kept = 'fault' in recurring && hasSchedules ? [SCHEDULES] : [];
  const stated = [...ownedFieldsOf(desired), ...kept, ...givenFieldsOf(object, had)];
  const ownedFields = [...new Set([...stated, ...ofWorkload])].sort();
  return { ...desired, ownedFields };
}

const SCHEDULES = 'maintenanceSchedules';

/** The spec as the API will return it: with trimmed texts and without negative zeros. */
function asStored(spec: Spec): Spec {
  const stored: Spec = JSON.parse(JSON.stringify(spec), (_key, value: unknown) =>
    typeof value === 'string' ? value.trim() : value,
  );
  return stored;
}

export function publishSecretNameOf({ spec, metadata }: MonitorObject): string {
  return spec.publishSecretName ?? `${metadata.name}${SECRET_SUFFIX.monitor}`;
}

/** Those of the workload give way to the Monitor's own. */
function withLabelsOf(workload: KubeObject | undefined, own: Record<string, string>): Record<string, string> {
  if (workload === undefined) return own;
  const others = Object.entries(defaultLabels(workload)).filter(([key]) => own[key] === undefined);
  return { ...own, ...Object.fromEntries(others.slice(0, MAX_LABELS - Object.keys(own).length)) };
}

/** `metadata.labels` without those of Kubernetes itself; the first 32 by name. */
function defaultLabels({ metadata }: KubeObject): Record<string, string> {
  const own = Object.entries(metadata.labels ?? {}).filter(([key]) => !isOfKubernetes(key));
  return Object.fromEntries(own.sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MAX_LABELS));
}

function isOfKubernetes(key: string): boolean {
  const prefix = key.includes('/') ? key.slice(0, key.indexOf('/')) : '';
  return prefix === 'kubernetes.io' || prefix.endsWith('.kubernetes.io');
}

/** A missing Callback is named by its default alias: the binding resolves as soon as it is created. */
function desiredBinding({ callback }: Spec, alias: string | undefined): Binding | undefined {
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

export const SCALAR_FIELDS = [
  'description',
  'intervalSeconds',
  'graceSeconds',
  'awaitFirstBeat',
  'maxRuntimeSeconds',
  'recoveryBeats',
  'missedBeatsToOpen',
] as const;

/**
 * Names: `graceSeconds`, `schedule`, `schedule.timeZone`, `labels.<key>`, `measurements.<key>`,
 * `measurements.<key>.<field>`, `callback`, `lifecycle`, `maintenance`, `maintenanceSchedules`, `dependsOn`.
 */
function ownedFieldsOf({
  spec,
  labels,
  maintenance,
  recurring,
}: Pick<DesiredMonitor, 'spec' | 'labels' | 'maintenance' | 'recurring'>): string[] {
  const fields: string[] = SCALAR_FIELDS.filter((field) => spec[field] !== undefined);
  for (const field of ['name', 'schedule', 'lifecycle', 'callback', 'dependsOn'] as const) {
    if (spec[field] !== undefined) fields.push(field);
  }
  if (spec.schedule?.timeZone !== undefined) fields.push('schedule.timeZone');
  if (maintenance !== undefined) fields.push('maintenance');
  if ('schedules' in recurring && recurring.schedules !== undefined) fields.push(SCHEDULES);
  for (const key of Object.keys(labels)) fields.push(`labels.${key}`);
  for (const [key, rule] of Object.entries(spec.measurements ?? {})) {
    fields.push(`measurements.${key}`);
    for (const [field, value] of Object.entries(rule)) {
      if (value !== undefined) fields.push(`measurements.${key}.${field}`);
    }
  }
  return fields;
}

/** What is kept differs from what is applied: somebody may have changed it meanwhile. */
function hashedRule({ rule, ...applied }: GivenRule): object {
  return rule === undefined ? { ...applied, isKept: true } : applied;
}

/** The API refuses the rule, and the Rule has applied none before, as far as the status says. */
function isRefused({ status }: MonitorObject, given: GivenRule): boolean {
  const isRule = ({ uid, measurementKey }: AppliedRule) =>
    uid === given.uid && measurementKey === given.measurementKey;
  const isKnown = status?.refusedRules?.some((one) => isSameRule(one, given)) ?? false;
  return isKnown && !status?.appliedRules?.some(isRule);
}

/** `desired` without the fields of the rules of these measurements. */
export function withoutRules(desired: DesiredMonitor, measurementKeys: readonly string[]): DesiredMonitor {
  if (measurementKeys.length === 0) return desired;
  const isOf = (field: string) =>
    measurementKeys.some(
      (key) => field === `measurements.${key}` || field.startsWith(`measurements.${key}.`),
    );
  return { ...desired, ownedFields: desired.ownedFields.filter((field) => !isOf(field)) };
}

/**
 * `measurements.<key>` and its fields, also those that the status lists already: what a Rule has applied before, and a
 * refused or replayed one has left there, is released with the measurement too.
 */
function givenFieldsOf({ status }: MonitorObject, rules: readonly GivenRule[]): string[] {
  return rules.flatMap(({ measurementKey, rule }) => {
    const name = `measurements.${measurementKey}`;
    const stated = Object.keys(rule?.spec.definition ?? {}).map((field) => `${name}.${field}`);
    const listed = (status?.ownedFields ?? []).filter((field) => field.startsWith(`${name}.`));
    return [name, ...new Set([...stated, ...listed])];
  });
}

/**
 * The body of POST /v1/monitors. Measurements, lifecycle and maintenance are set afterwards; so is what it depends on, so that the
 * monitor is watched where the API refuses that.
 */
export function createMonitorBodyOf(desired: DesiredMonitor): OperationRequest<'createMonitor'>['body'] {
  const { spec } = desired;
  return {
    monitorId: desired.id,
    name: spec.name ?? desired.defaultName,
    description: spec.description,
    labels: desired.labels,
    intervalSeconds: spec.intervalSeconds,
    schedule: spec.schedule,
    graceSeconds: spec.graceSeconds,
    jurisdiction: spec.jurisdiction,
    callback: desired.binding,
    awaitFirstBeat: spec.awaitFirstBeat,
    maxRuntimeSeconds: spec.maxRuntimeSeconds,
    recoveryBeats: spec.recoveryBeats,
    missedBeatsToOpen: spec.missedBeatsToOpen,
    // Of a new monitor there is nothing to keep.
    maintenanceSchedules:
      'schedules' in desired.recurring
        ? desired.recurring.schedules
        : ownMaintenance(spec.maintenanceSchedules),
  };
}
