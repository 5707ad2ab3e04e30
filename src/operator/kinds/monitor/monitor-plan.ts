// Compares the desired state of a monitor with its record, and plans the calls that make them equal, in order. Pure.
import { isDeepStrictEqual } from 'node:util';
import type { OperationRequest } from '../../../contract/operations/operations.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import { MAX_DEPENDENCIES } from '../../../contract/resources/dependencies.ts';
import type { Monitor } from '../../../contract/resources/monitor.ts';
import { MONITOR_DEFAULTS } from '../../../domain/defaults.ts';
import type { Lifecycle } from '../../../domain/monitor.ts';
import { RULE_KINDS } from '../../../domain/rules/rule-kinds.ts';
import type { Change } from '../../pass/kind.ts';
import { anyOf } from '../../pass/recorded-fields.ts';
import { releasedFields } from '../../pass/status.ts';
import { type DesiredMonitor, SCALAR_FIELDS } from './desired-monitor.ts';
import type { MonitorObject } from './monitor-object.ts';

export type MonitorPatch = OperationRequest<'updateMonitor'>['body']['patch'];
type LifecycleBody = OperationRequest<'changeMonitorLifecycle'>['body'];

export type MonitorStep =
  | { call: 'patch'; patch: MonitorPatch }
  | { call: 'binding'; binding: Binding }
  | { call: 'lifecycle'; body: LifecycleBody };

export interface MonitorPlan {
  steps: MonitorStep[];
  /** The last step, by itself: the API may refuse it, and all else is done. */
  dependsOn?: MonitorPatch['dependsOn'];
  /** The names of the fields that differ, for Events. */
  fields: string[];
}

/** An archived monitor that was just taken over is restored, unless the spec archives it. */
export interface MonitorPlanFacts extends Change {
  record: Monitor;
  /** What the object has set before, and of a monitor that it takes over what earlier ones of its name have set. */
  owned: readonly string[] | undefined;
}

export function planMonitor(desired: DesiredMonitor, facts: MonitorPlanFacts): MonitorPlan {
  const released = releasedFields(facts.owned, desired.ownedFields);
  const patch = planPatch(desired, facts.record, released);
  const binding = planBinding(desired, facts.record, released);
  const lifecycle = planLifecycle(desired, facts, released);
  const configuration: MonitorStep[] = [
    ...splitPatch(patch).map((part): MonitorStep => ({ call: 'patch', patch: part })),
    ...(binding === undefined ? [] : [{ call: 'binding', binding } as const]),
  ];
  const dependsOn = planDependencies(desired, facts.record, released);
  // Pausing comes first and resuming last, so that a half-configured monitor opens no incident.
  const stops = lifecycle.steps.some(({ body }) => body.action === 'pause' || body.action === 'archive');
  return {
    steps: stops ? [...lifecycle.steps, ...configuration] : [...configuration, ...lifecycle.steps],
    dependsOn,
    fields: [
      ...Object.keys(patch),
      ...(binding === undefined ? [] : ['callback']),
      ...lifecycle.fields,
      ...(dependsOn === undefined ? [] : ['dependsOn']),
    ],
  };
}

const DEFAULTS: Partial<Record<(typeof SCALAR_FIELDS)[number], unknown>> = MONITOR_DEFAULTS;

function planPatch(desired: DesiredMonitor, record: Monitor, released: ReadonlySet<string>): MonitorPatch {
  const { spec } = desired;
  const patch: Record<string, unknown> = {};
  const name = spec.name ?? (released.has('name') ? desired.defaultName : undefined);
  if (name !== undefined && name !== record.name) patch.name = name;
  for (const field of SCALAR_FIELDS) {
    const [value, current] = [spec[field], record[field]];
    if (value !== undefined && value !== (current ?? (field === 'description' ? '' : current)))
      patch[field] = value;
    else if (released.has(field) && current !== DEFAULTS[field]) patch[field] = null;
  }
  Object.assign(patch, planCadence(desired, record, released));
  Object.assign(patch, planSchedules(desired, record, released));
  const labels = planLabels(desired.labels, record.labels, released);
  if (Object.keys(labels).length > 0) patch.labels = labels;
  const given = new Set(desired.rules.map(({ measurementKey }) => measurementKey));
  const measurements = planMeasurements(spec.measurements ?? {}, record.measurements, { released, given });
  if (Object.keys(measurements).length > 0) patch.measurements = withWholeRatios(measurements);
  return patch;
}

/** Interval and schedule exclude each other: the one in the spec removes the other, whoever set it. */
function planCadence({ spec }: DesiredMonitor, record: Monitor, released: ReadonlySet<string>): MonitorPatch {
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

function planSchedules(
  { recurring }: DesiredMonitor,
  { maintenanceSchedules: current = [] }: Monitor,
  released: ReadonlySet<string>,
): MonitorPatch {
  if ('fault' in recurring) return {};
  const { schedules } = recurring;
  const goes = schedules === undefined && released.has('maintenanceSchedules');
  if (goes && current.length > 0) return { maintenanceSchedules: null };
  const isSame = schedules === undefined || isDeepStrictEqual(plainOf(schedules), plainOf(current));
  return isSame ? {} : { maintenanceSchedules: schedules };
}

/** Undefined: it has what it should have. */
function planDependencies(
  { dependencies: { ids, isWaiting } }: DesiredMonitor,
  { dependsOn: current = [] }: Monitor,
  released: ReadonlySet<string>,
): MonitorPatch['dependsOn'] {
  if (ids === undefined) return released.has('dependsOn') && current.length > 0 ? null : undefined;
  const wanted = isWaiting ? [...new Set([...current, ...ids])].slice(0, MAX_DEPENDENCIES) : [...ids];
  return isDeepStrictEqual([...wanted].sort(), [...current].sort()) ? undefined : wanted;
}

/** Without fields that are undefined. */
const plainOf = (value: object): unknown => JSON.parse(JSON.stringify(value));

function planLabels(
  desired: Record<string, string>,
  current: Record<string, string>,
  released: ReadonlySet<string>,
): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const [key, value] of Object.entries(desired)) if (current[key] !== value) changes[key] = value;
  const isAny = released.has(anyOf('labels'));
  for (const key of Object.keys(current)) {
    if (released.has(`labels.${key}`) || (isAny && desired[key] === undefined)) changes[key] = null;
  }
  return changes;
}

function planBinding(
  { binding }: DesiredMonitor,
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
  desired: DesiredMonitor,
  facts: MonitorPlanFacts,
  released: ReadonlySet<string>,
): LifecyclePlan {
  const { record } = facts;
  const target = desiredLifecycle(desired, facts, released) ?? record.lifecycle;
  const steps: LifecyclePlan['steps'] = PATHS[record.lifecycle][target].map((action) => ({
    call: 'lifecycle',
    body: { action },
  }));
  const fields = steps.length > 0 ? ['lifecycle'] : [];
  // Only an active monitor can have a window; the window of the spec is set when it is active again.
  const window = target === 'active' ? planMaintenance(desired, facts, released) : undefined;
  if (window === undefined) return { steps, fields };
  return { steps: [...steps, { call: 'lifecycle', body: window }], fields: [...fields, 'maintenance'] };
}

function desiredLifecycle(
  { spec }: DesiredMonitor,
  { record, isTakenOver }: MonitorPlanFacts,
  released: ReadonlySet<string>,
): Lifecycle | undefined {
  if (spec.lifecycle !== undefined) return spec.lifecycle;
  if (released.has('lifecycle')) return 'active';
  return isTakenOver && record.lifecycle === 'archived' ? 'active' : undefined;
}

function planMaintenance(
  { spec, maintenance }: DesiredMonitor,
  { record, isChanged }: MonitorPlanFacts,
  released: ReadonlySet<string>,
): LifecycleBody | undefined {
  const current = ownWindowOf(record);
  if (maintenance !== undefined) {
    return isSameWindow(maintenance, current) ? undefined : { action: 'enter_maintenance', maintenance };
  }
  // A window of the spec that has expired is over at the API too: a window there now is not from this object.
  const isOurs = released.has('maintenance') && (spec.maintenance === undefined || isChanged);
  return isOurs && current !== undefined ? { action: 'exit_maintenance' } : undefined;
}

/** While an installation is upgraded, an api of the former version, which has no schedules, shows it in the status alone. */
function ownWindowOf({ maintenance, maintenanceSchedules, status }: Monitor): Window | undefined {
  return maintenance ?? (maintenanceSchedules === undefined ? status.maintenance : undefined);
}

type Window = NonNullable<DesiredMonitor['spec']['maintenance']>;

function isSameWindow(one: Window, other: Window | undefined): boolean {
  return (
    other !== undefined &&
    Date.parse(one.startsAt) === Date.parse(other.startsAt) &&
    Date.parse(one.endsAt) === Date.parse(other.endsAt) &&
    one.reason === other.reason
  );
}

/** The API accepts bodies of at most 16 KiB. */
const MAX_PATCH_CHARACTERS = 12_000;

/** One patch, or several if many measurements change at once; none if nothing changes. */
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

type Rules = NonNullable<MonitorObject['spec']['measurements']>;
type Rule = Rules[string];
type Fields = Record<string, unknown>;

interface MeasurementFacts {
  released: ReadonlySet<string>;
  /** The measurements that Rules give. */
  given: ReadonlySet<string>;
}

/** The measurements that differ, by key and field; null removes a rule or a whole measurement. Empty: nothing differs. */
function planMeasurements(
  desired: Rules,
  record: Monitor['measurements'],
  { released, given }: MeasurementFacts,
): Record<string, Fields | null> {
  const patch: Record<string, Fields | null> = {};
  for (const [key, rule] of Object.entries(desired)) {
    const current = Object.hasOwn(record, key) ? record[key] : undefined;
    const changes = planRule(key, rule, { current, released });
    if (current === undefined || Object.keys(changes).length > 0) patch[key] = changes;
  }
  const isAny = released.has(anyOf('measurements'));
  for (const key of Object.keys(record)) {
    if (Object.hasOwn(desired, key) || given.has(key)) continue;
    if (isAny || released.has(`measurements.${key}`)) patch[key] = null;
  }
  return patch;
}

function planRule(
  key: string,
  rule: Rule,
  { current, released }: { current: Fields | undefined; released: ReadonlySet<string> },
): Fields {
  const changes: Fields = {};
  const stated = effective(rule);
  for (const [field, value] of Object.entries(stated)) {
    const isThere = current?.[field] !== undefined;
    if (value === null ? isThere : !isDeepStrictEqual(current?.[field], value)) changes[field] = value;
  }
  for (const field of Object.keys(current ?? {})) {
    const isAny = released.has(anyOf('measurements')) && stated[field] === undefined;
    if (isAny || released.has(`measurements.${key}.${field}`)) changes[field] = null;
  }
  return changes;
}

/** The rule with null for its `disabledRules`. */
function effective({ disabledRules, ...rule }: Rule): Fields {
  const fields: Fields = Object.fromEntries(Object.entries(rule).filter(([, value]) => value !== undefined));
  for (const kind of RULE_KINDS) if (disabledRules?.includes(kind)) fields[kind] = null;
  return fields;
}

/** The API merges the fields of a ratio, while a spec states the whole ratio: missing bounds become null in the patch. */
export function withWholeRatios(patch: Record<string, Fields | null>): Record<string, Fields | null> {
  const entries = Object.entries(patch).map(([key, rule]) => [key, rule && withWholeRatio(rule)]);
  return Object.fromEntries(entries);
}

function withWholeRatio(rule: Fields): Fields {
  const { ratio } = rule;
  if (typeof ratio !== 'object' || ratio === null) return rule;
  return { ...rule, ratio: { minimum: null, maximum: null, ...ratio } };
}
