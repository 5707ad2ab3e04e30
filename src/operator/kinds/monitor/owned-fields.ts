// Which fields of a monitor an object sets: `status.ownedFields`. A field that was in it and is set no more goes
// back to the API's default; a field that never was is left alone (docs/contract/kubernetes.md, "Ownership of fields"). Pure.
import { currentMaintenance, type WantedMonitor } from './wanted-monitor.ts';

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
 * Sorted names: `graceSeconds`, `schedule`, `schedule.timeZone`, `labels.<key>`, `measurements.<key>`,
 * `measurements.<key>.<field>`, `callback`, `lifecycle`, `maintenance`.
 */
export function ownedMonitorFields({ spec, labels }: WantedMonitor, nowMs: number): string[] {
  const fields: string[] = SCALAR_FIELDS.filter((field) => spec[field] !== undefined);
  for (const field of ['name', 'schedule', 'lifecycle', 'callback'] as const) {
    if (spec[field] !== undefined) fields.push(field);
  }
  if (spec.schedule?.timeZone !== undefined) fields.push('schedule.timeZone');
  if (currentMaintenance(spec, nowMs) !== undefined) fields.push('maintenance');
  for (const key of Object.keys(labels)) fields.push(`labels.${key}`);
  for (const [key, rule] of Object.entries(spec.measurements ?? {})) {
    fields.push(`measurements.${key}`);
    for (const [field, value] of Object.entries(rule)) {
      if (value !== undefined) fields.push(`measurements.${key}.${field}`);
    }
  }
  return fields.sort();
}

/** What was owned and is no more. */
export function releasedFields(before: readonly string[] | undefined, now: readonly string[]): Set<string> {
  const kept = new Set(now);
  return new Set((before ?? []).filter((field) => !kept.has(field)));
}

/** Both, sorted: what has to be remembered while a change is under way. */
export function unitedFields(before: readonly string[] | undefined, now: readonly string[]): string[] {
  return [...new Set([...(before ?? []), ...now])].sort();
}
