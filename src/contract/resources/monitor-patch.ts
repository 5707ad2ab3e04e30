// Merges the `patch` of an update into the configuration of a monitor, and makes the checks that need the merged
// configuration. Pure: the caller locks the row and passes the stored configuration.
import { MONITOR_DEFAULTS, SCHEDULE_TIME_ZONE } from '../../domain/defaults.ts';
import type { MonitorConfiguration } from '../../domain/monitor.ts';
import type { FieldError } from '../../domain/problem.ts';
import type { ScheduleSpec } from '../../domain/schedule.ts';
import { MAX_LABELS } from '../fields/field.ts';
import { fieldPath } from '../fields/field-errors.ts';
import { MAX_MEASUREMENTS } from './measurement-rule.ts';
import { mergeMeasurementRule } from './measurement-rule-patch.ts';
import { type ContractLimits, cadenceFault, defaultGraceSeconds, type MonitorPatch } from './monitor.ts';

export type PatchedConfiguration = { configuration: MonitorConfiguration } | { fieldErrors: FieldError[] };

/**
 * RFC 7396: omitted fields keep their values, null removes or restores the default (docs/contract/monitors.md).
 * Paths of field errors begin with `patch`.
 */
export function applyMonitorPatch(
  current: MonitorConfiguration,
  patch: MonitorPatch,
  limits: ContractLimits,
): PatchedConfiguration {
  const errors: FieldError[] = [];
  const refuse = (path: readonly string[], code: string, message: string) =>
    errors.push({ code, message, path: fieldPath(['patch', ...path]) });

  const configuration: MonitorConfiguration = {
    name: patch.name ?? current.name,
    description: optional(patch.description, current.description),
    labels: mergeLabels(current.labels, patch.labels),
    intervalSeconds: optional(patch.intervalSeconds, current.intervalSeconds),
    schedule: mergeSchedule(current.schedule, patch.schedule, refuse),
    graceSeconds: withDefault(patch.graceSeconds, current.graceSeconds, defaultGraceSeconds(limits)),
    awaitFirstBeat: withDefault(
      patch.awaitFirstBeat,
      current.awaitFirstBeat,
      MONITOR_DEFAULTS.awaitFirstBeat,
    ),
    maxRuntimeSeconds: optional(patch.maxRuntimeSeconds, current.maxRuntimeSeconds),
    recoveryBeats: withDefault(patch.recoveryBeats, current.recoveryBeats, MONITOR_DEFAULTS.recoveryBeats),
    missedBeatsToOpen: withDefault(
      patch.missedBeatsToOpen,
      current.missedBeatsToOpen,
      MONITOR_DEFAULTS.missedBeatsToOpen,
    ),
    maintenanceSchedules: atLeastOne(optional(patch.maintenanceSchedules, current.maintenanceSchedules)),
    dependsOn: atLeastOne(optional(patch.dependsOn, current.dependsOn)),
    measurements: mergeMeasurements(current.measurements, patch.measurements, refuse),
  };
  const cadence = cadenceFault(configuration);
  if (cadence) refuseSecondCadence(patch, refuse);
  if (Object.keys(configuration.labels).length > MAX_LABELS) {
    refuse(['labels'], 'too_many', `A monitor has at most ${MAX_LABELS} labels: remove some with null.`);
  }
  if (Object.keys(configuration.measurements).length > MAX_MEASUREMENTS) {
    refuse(['measurements'], 'too_many', `A monitor has rules for at most ${MAX_MEASUREMENTS} measurements.`);
  }
  return errors.length > 0 ? { fieldErrors: errors } : { configuration };
}

type Refuse = (path: readonly string[], code: string, message: string) => void;

/** Reports the field that this patch adds, and the null that it needs. */
function refuseSecondCadence(patch: MonitorPatch, refuse: Refuse): void {
  const [added, other] = patch.schedule ? ['schedule', 'intervalSeconds'] : ['intervalSeconds', 'schedule'];
  refuse([added], 'mutually_exclusive', `The monitor has ${other}: send ${other}: null with this.`);
}

function optional<Value>(stated: Value | null | undefined, current: Value | undefined): Value | undefined {
  if (stated === undefined) return current;
  return stated === null ? undefined : stated;
}

/** An empty list is stored as none. */
export function atLeastOne<Value>(list: Value[] | undefined): Value[] | undefined {
  return list?.length === 0 ? undefined : list;
}

function withDefault<Value>(stated: Value | null | undefined, current: Value, fallback: Value): Value {
  if (stated === undefined) return current;
  return stated ?? fallback;
}

function mergeLabels(current: MonitorConfiguration['labels'], stated: MonitorPatch['labels']) {
  if (stated === undefined) return current;
  const merged = Object.entries({ ...(stated === null ? {} : current), ...stated });
  return Object.fromEntries(merged.filter((entry): entry is [string, string] => entry[1] !== null));
}

function mergeSchedule(current: ScheduleSpec | undefined, stated: MonitorPatch['schedule'], refuse: Refuse) {
  if (stated === undefined) return current;
  if (stated === null) return undefined;
  const cron = stated.cron ?? current?.cron;
  if (cron !== undefined) {
    const before = current?.timeZone ?? SCHEDULE_TIME_ZONE;
    return { cron, timeZone: withDefault(stated.timeZone, before, SCHEDULE_TIME_ZONE) };
  }
  refuse(['schedule', 'cron'], 'required', 'This is required: state it.');
  return undefined;
}

function mergeMeasurements(
  current: MonitorConfiguration['measurements'],
  stated: MonitorPatch['measurements'],
  refuse: Refuse,
) {
  if (stated === undefined) return current;
  const merged = new Map(Object.entries(stated === null ? {} : current));
  for (const [key, patch] of Object.entries(stated ?? {})) {
    if (patch === null) {
      merged.delete(key);
      continue;
    }
    const result = mergeMeasurementRule(key, merged.get(key), patch);
    if ('rule' in result) merged.set(key, result.rule);
    else
      for (const fault of result.faults)
        refuse(['measurements', key, ...fault.path], fault.code, fault.message);
  }
  return Object.fromEntries(merged);
}
