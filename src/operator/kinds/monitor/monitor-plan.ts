// From what a Monitor wants and what the API has to the calls that make them equal, in their order. Pure.
import { isDeepStrictEqual } from 'node:util';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import { MONITOR_DEFAULTS } from '../../../domain/defaults.ts';
import type { Lifecycle } from '../../../domain/monitor.ts';
import { planMeasurements, withWholeRatios } from './measurement-plan.ts';
import { ownedMonitorFields, releasedFields, SCALAR_FIELDS } from './owned-fields.ts';
import { currentMaintenance, type WantedMonitor } from './wanted-monitor.ts';

export type MonitorPatch = OperationRequest<'updateMonitor'>['body']['patch'];
type LifecycleBody = OperationRequest<'changeMonitorLifecycle'>['body'];

export type MonitorStep =
  | { call: 'patch'; patch: MonitorPatch }
  | { call: 'binding'; binding: Binding }
  | { call: 'lifecycle'; body: LifecycleBody };

export interface MonitorPlan {
  steps: MonitorStep[];
  /** What differs, as users call it: for Events. */
  fields: string[];
}

export interface MonitorPlanFacts {
  record: Monitor;
  /** `status.ownedFields`. */
  owned: readonly string[] | undefined;
  /** The object has just taken this monitor over: an archived one comes back, unless the spec archives it. */
  isTakenOver: boolean;
  /** The spec is not the one that was applied last. */
  isChanged: boolean;
  nowMs: number;
}

export function planMonitor(wanted: WantedMonitor, facts: MonitorPlanFacts): MonitorPlan {
  const released = releasedFields(facts.owned, ownedMonitorFields(wanted, facts.nowMs));
  const patch = planPatch(wanted, facts.record, released);
  const binding = planBinding(wanted, facts.record, released);
  const lifecycle = planLifecycle(wanted, facts, released);
  const configuration: MonitorStep[] = [
    ...splitPatch(patch).map((part): MonitorStep => ({ call: 'patch', patch: part })),
    ...(binding === undefined ? [] : [{ call: 'binding', binding } as const]),
  ];
  // What stops the clock comes first and what starts it last, so that no half-made monitor opens an incident.
  const stops = lifecycle.steps.some(({ body }) => body.action === 'pause' || body.action === 'archive');
  return {
    steps: stops ? [...lifecycle.steps, ...configuration] : [...configuration, ...lifecycle.steps],
    fields: [...Object.keys(patch), ...(binding === undefined ? [] : ['callback']), ...lifecycle.fields],
  };
}

const DEFAULTS: Partial<Record<(typeof SCALAR_FIELDS)[number], unknown>> = MONITOR_DEFAULTS;

function planPatch(wanted: WantedMonitor, record: Monitor, released: ReadonlySet<string>): MonitorPatch {
  const { spec } = wanted;
  const patch: Record<string, unknown> = {};
  const name = spec.name ?? (released.has('name') ? wanted.defaultName : undefined);
  if (name !== undefined && name !== record.name) patch.name = name;
  for (const field of SCALAR_FIELDS) {
    const [value, current] = [spec[field], record[field]];
    if (value !== undefined && value !== (current ?? (field === 'description' ? '' : current)))
      patch[field] = value;
    else if (released.has(field) && current !== DEFAULTS[field]) patch[field] = null;
  }
  Object.assign(patch, planCadence(wanted, record, released));
  const labels = planLabels(wanted.labels, record.labels, released);
  if (Object.keys(labels).length > 0) patch.labels = labels;
  const measurements = planMeasurements(spec.measurements ?? {}, record.measurements, released);
  if (Object.keys(measurements).length > 0) patch.measurements = withWholeRatios(measurements);
  return patch;
}

/** Interval and schedule exclude each other: what the spec sets takes the other one away, whoever set it. */
function planCadence({ spec }: WantedMonitor, record: Monitor, released: ReadonlySet<string>): MonitorPatch {
  if (spec.schedule === undefined) {
    const goes = spec.intervalSeconds !== undefined || released.has('schedule');
    return goes && record.schedule !== undefined ? { schedule: null } : {};
  }
  const { cron } = spec.schedule;
  const timeZone = spec.schedule.timeZone ?? (released.has('schedule.timeZone') ? 'UTC' : undefined);
  const isSame =
    record.schedule?.cron === cron && (timeZone === undefined || record.schedule.timeZone === timeZone);
  return {
    ...(isSame ? {} : { schedule: { cron, ...(timeZone === undefined ? {} : { timeZone }) } }),
    ...(record.intervalSeconds === undefined ? {} : { intervalSeconds: null }),
  };
}

function planLabels(
  wanted: Record<string, string>,
  current: Record<string, string>,
  released: ReadonlySet<string>,
): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const [key, value] of Object.entries(wanted)) if (current[key] !== value) changes[key] = value;
  for (const key of Object.keys(current)) if (released.has(`labels.${key}`)) changes[key] = null;
  return changes;
}

function planBinding(
  { binding }: WantedMonitor,
  { callback }: Monitor,
  released: ReadonlySet<string>,
): Binding | undefined {
  const target: Binding | undefined =
    binding ?? (released.has('callback') ? { kind: 'organization_default' } : undefined);
  return target === undefined || isDeepStrictEqual(target, { ...callback }) ? undefined : target;
}

const PATHS: Readonly<Record<Lifecycle, Readonly<Record<Lifecycle, readonly LifecycleBody['action'][]>>>> = {
  active: { active: [], paused: ['pause'], archived: ['archive'] },
  paused: { active: ['resume'], paused: [], archived: ['archive'] },
  archived: { active: ['restore'], paused: ['restore', 'pause'], archived: [] },
};

interface LifecyclePlan {
  steps: Extract<MonitorStep, { call: 'lifecycle' }>[];
  fields: string[];
}

function planLifecycle(
  wanted: WantedMonitor,
  facts: MonitorPlanFacts,
  released: ReadonlySet<string>,
): LifecyclePlan {
  const { record } = facts;
  const target = wantedLifecycle(wanted, facts, released) ?? record.lifecycle;
  const steps: LifecyclePlan['steps'] = PATHS[record.lifecycle][target].map((action) => ({
    call: 'lifecycle',
    body: { action },
  }));
  const fields = steps.length > 0 ? ['lifecycle'] : [];
  // Only an active monitor has a window; the spec's comes when it is active again.
  const window = target === 'active' ? planMaintenance(wanted, facts, released) : undefined;
  if (window === undefined) return { steps, fields };
  return { steps: [...steps, { call: 'lifecycle', body: window }], fields: [...fields, 'maintenance'] };
}

function wantedLifecycle(
  { spec }: WantedMonitor,
  { record, isTakenOver }: MonitorPlanFacts,
  released: ReadonlySet<string>,
): Lifecycle | undefined {
  if (spec.lifecycle !== undefined) return spec.lifecycle;
  if (released.has('lifecycle')) return 'active';
  return isTakenOver && record.lifecycle === 'archived' ? 'active' : undefined;
}

function planMaintenance(
  { spec }: WantedMonitor,
  { record, isChanged, nowMs }: MonitorPlanFacts,
  released: ReadonlySet<string>,
): LifecycleBody | undefined {
  const current = record.status.maintenance;
  const maintenance = currentMaintenance(spec, nowMs);
  if (maintenance !== undefined) {
    return isSameWindow(maintenance, current) ? undefined : { action: 'enter_maintenance', maintenance };
  }
  // One of ours that ran out by itself is over at the API too: what runs there now is another's.
  const isOurs = released.has('maintenance') && (spec.maintenance === undefined || isChanged);
  return isOurs && current !== undefined ? { action: 'exit_maintenance' } : undefined;
}

type Window = NonNullable<WantedMonitor['spec']['maintenance']>;

function isSameWindow(one: Window, other: Window | undefined): boolean {
  return (
    other !== undefined &&
    Date.parse(one.startsAt) === Date.parse(other.startsAt) &&
    Date.parse(one.endsAt) === Date.parse(other.endsAt) &&
    one.reason === other.reason
  );
}

/** Bodies have 16 KiB at most. */
const MAX_PATCH_CHARACTERS = 12_000;

/** One patch, or several where many measurements change at once. None where nothing does. */
export function splitPatch(patch: MonitorPatch): MonitorPatch[] {
  const { measurements, ...rest } = patch;
  const parts: MonitorPatch[] = Object.keys(rest).length > 0 ? [rest] : [];
  for (const [key, rule] of Object.entries(measurements ?? {})) {
    const last = parts.at(-1);
    const extended = { ...last, measurements: { ...last?.measurements, [key]: rule } };
    if (last !== undefined && JSON.stringify(extended).length <= MAX_PATCH_CHARACTERS)
      parts.splice(-1, 1, extended);
    else parts.push({ measurements: { [key]: rule } });
  }
  return parts;
}
