// The status of a Monitor from the API's answers: fields, columns and conditions (docs/contract/kubernetes.md, "Columns",
// "Conditions"), whether a change is worth a write, and which incidents began or ended. Pure.
import { MAX_OPEN_INCIDENTS } from '../../../contract/crd/monitor-resource.ts';
import type { Binding } from '../../../contract/resources/binding.ts';
import type { Monitor, MonitorStatus } from '../../../contract/resources/monitor.ts';
import { isSameStatus } from '../../../kube/apply-status.ts';
import type { ConditionFacts } from '../../../kube/conditions.ts';
import type { BindingState } from '../../known/binding-directory.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import type { KindStatus } from '../../pass/kind.ts';
import type { Fault } from '../../pass/object.ts';
import type { MonitorObject, MonitorStatusFields } from './monitor-object.ts';

type Cadence = MonitorStatus['cadence'];
export type OpenIncident = MonitorStatus['openIncidents'][number];

export interface MonitorStatusFacts {
  object: MonitorObject;
  /** The latest status of the monitor; undefined: the fields of the object's status stay. */
  latest: CachedMonitorStatus | undefined;
  /** The configuration that this pass has read; undefined: it has not changed. */
  record: Monitor | undefined;
  /** Why the maintenance of the namespace is not applied. */
  maintenanceFault?: string | undefined;
  /** Whether the operator watches the workload; undefined: this pass does not know. */
  workload?: ConditionFacts | undefined;
}

export function monitorStatusOf(facts: MonitorStatusFacts): KindStatus {
  const { object, latest, record } = facts;
  const previous = object.status ?? {};
  const hasWorkload = object.spec.workloadRef !== undefined;
  const workload = hasWorkload && facts.workload !== undefined ? [facts.workload] : [];
  const special = [...workload, ...maintenanceCondition(facts)];
  const removed = [
    ...(hasWorkload ? [] : ['WorkloadWatched']),
    ...(facts.maintenanceFault === undefined ? ['MaintenanceApplied'] : []),
  ];
  if (latest === undefined) return { fields: {}, conditions: special, removed };
  const { status, lifecycle, configurationVersion } = latest;
  const { health, firstBeatAt, lastBeatAt, nextDeadlineAt, cadence, openIncidents } = status;
  const fields: MonitorStatusFields = {
    ...{ configurationVersion, lifecycle, health, firstBeatAt, lastBeatAt, nextDeadlineAt, cadence },
    openIncidents: openIncidents.length === 0 ? undefined : openIncidents.slice(0, MAX_OPEN_INCIDENTS),
    restorableUntil: restorableUntil(latest, record, previous),
    display: displayOf(latest, record, object),
  };
  return { fields, conditions: [healthyCondition(latest), ...special], removed };
}

function maintenanceCondition({ maintenanceFault: message }: MonitorStatusFacts): ConditionFacts[] {
  if (message === undefined) return [];
  return [{ type: 'MaintenanceApplied', status: 'False', reason: 'Refused', message }];
}

function restorableUntil(
  { lifecycle }: CachedMonitorStatus,
  record: Monitor | undefined,
  previous: MonitorStatusFields,
): string | undefined {
  if (lifecycle !== 'archived') return undefined;
  return record === undefined ? previous.restorableUntil : record.restorableUntil;
}

function displayOf(
  { status }: CachedMonitorStatus,
  record: Monitor | undefined,
  object: MonitorObject,
): MonitorStatusFields['display'] {
  const previous = object.status?.display;
  const cron = record?.schedule?.cron ?? object.spec.schedule?.cron;
  return {
    deadline: displayDeadline(status),
    interval: displayInterval(status.cadence, cron) ?? previous?.interval,
    incident: displayIncident(status.openIncidents),
    callback: record === undefined ? previous?.callback : displayCallback(record.callback),
  };
}

/**
 * True if nothing differs except what every beat changes, or whether the monitor is late: such a status is written at
 * most once a period.
 */
export function isBeatAlone(before: MonitorStatusFields | undefined, after: MonitorStatusFields): boolean {
  return !hasNewRun(before, after) && isSameStatus(withoutBeat(before ?? {}), withoutBeat(after));
}

/** A run that is open at the API and nowhere else would be open for ever if the operator died. */
function hasNewRun(before: MonitorStatusFields | undefined, after: MonitorStatusFields): boolean {
  const open = (status: MonitorStatusFields | undefined) =>
    (status?.workload?.runs ?? []).filter(
      ({ started, ended }) => started !== undefined && ended === undefined,
    );
  const known = new Set(open(before).map(({ uid }) => uid));
  return open(after).some(({ uid }) => !known.has(uid));
}

/** True if the status of the object would differ by no more than a beat from what the feed says of its monitor. */
export function isBeatItem(object: MonitorObject, latest: CachedMonitorStatus): boolean {
  const { fields } = monitorStatusOf({ object, latest, record: undefined });
  return isBeatAlone(object.status, { ...object.status, ...fields });
}

function withoutBeat(status: MonitorStatusFields): object {
  const { lastBeatAt, nextDeadlineAt, cadence, display, health, conditions, workload, ...rest } = status;
  const isLearned = cadence?.source === 'learned';
  return {
    ...rest,
    health: health === 'late' ? 'up' : health,
    conditions: conditions?.map((condition) => withoutBeatWords(condition, health)),
    // The first one is news; a later one is not.
    ...{ hasBeat: lastBeatAt !== undefined, hasDeadline: nextDeadlineAt !== undefined },
    cadence: cadence?.source === 'configured' ? cadence : { source: cadence?.source },
    // What else was reported counts once also if it is sent again.
    workload: workload && { uid: workload.uid },
    display: { ...display, deadline: undefined, interval: isLearned ? 'learned' : display?.interval },
  };
}

/** Those of one that is up, late or waiting. Others, such as that of a refusal, have a message without a beat. */
const BEAT_REASONS: readonly string[] = ['Up', 'Late', 'Waiting', 'IncidentOpen'];

/**
 * The sentence of one that is up, late or waiting names its last beat and its deadline, also where an incident is open: which
 * one is in `openIncidents`.
 */
function withoutBeatWords<Condition extends ConditionFacts>(
  condition: Condition,
  health: MonitorStatusFields['health'],
): Condition {
  const { type, reason } = condition;
  const hasBeat = health === 'up' || health === 'late' || health === 'waiting';
  if (type !== 'Healthy' || !hasBeat || !BEAT_REASONS.includes(reason)) return condition;
  return { ...condition, reason: reason === 'Late' ? 'Up' : reason, message: '' };
}

const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
] as const;

/** `5m`, `1h30m`, `1d`: the two largest units. */
export function displayDuration(seconds: number): string {
  let left = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join('') || '0s';
}

/** `5m`, `cron 0 2 * * *`, `learned 1h`, `learning`. Undefined for a schedule without `cron`. */
export function displayInterval(cadence: Cadence, cron: string | undefined): string | undefined {
  switch (cadence.source) {
    case 'schedule':
      // One space between fields: a tab would break the column.
      return cron === undefined ? undefined : `cron ${cron.trim().replaceAll(/\s+/g, ' ')}`;
    case 'learning':
      return 'learning';
    case 'learned':
      return `learned ${displayDuration(cadence.intervalSeconds ?? 0)}`;
    case 'configured':
      return displayDuration(cadence.intervalSeconds ?? 0);
  }
}

/** The next deadline, or `missed <time>` while none runs because one was missed. */
export function displayDeadline({ nextDeadlineAt, openIncidents }: MonitorStatus): string | undefined {
  if (nextDeadlineAt !== undefined) return nextDeadlineAt;
  const missed = openIncidents.find(({ kind }) => kind === 'missed_deadline');
  return missed && `missed ${missed.openedAt}`;
}

const SEVERITIES = ['critical', 'warning', 'info'] as const;

/** The kind of the gravest open incident, and `+n` for more. Undefined without incidents. */
export function displayIncident(incidents: readonly OpenIncident[]): string | undefined {
  const [gravest, ...others] = incidents.toSorted(
    (a, b) =>
      SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) || (a.openedAt < b.openedAt ? -1 : 1),
  );
  if (gravest === undefined) return undefined;
  return others.length === 0 ? gravest.kind : `${gravest.kind} +${others.length}`;
}

/** The alias, `default`, `inline` or `none`. */
export function displayCallback(binding: Binding): string {
  switch (binding.kind) {
    case 'named':
      return binding.alias;
    case 'inline':
      return 'inline';
    case 'disabled':
      return 'none';
    case 'organization_default':
      return 'default';
  }
}

/** The binding behind a `displayCallback`, if the record was not read. An alias may equal one of the words. */
export function bindingOf(text: string | undefined): Binding {
  if (text === undefined || text === 'default') return { kind: 'organization_default' };
  if (text === 'none') return { kind: 'disabled' };
  return text === 'inline' ? { kind: 'inline', url: '' } : { kind: 'named', alias: text };
}

/** The incidents that began or ended between two statuses, whatever happened in between. */
export interface IncidentChanges {
  opened: OpenIncident[];
  /** No longer open or recovering. The API knows whether they recovered or were resolved. */
  ended: OpenIncident[];
}

export function incidentChanges(
  before: readonly OpenIncident[] | undefined,
  after: readonly OpenIncident[],
): IncidentChanges {
  const known = new Set(before?.map(({ incidentId }) => incidentId));
  const open = new Set(after.map(({ incidentId }) => incidentId));
  return {
    opened: after.filter(({ incidentId }) => !known.has(incidentId)),
    ended: (before ?? []).filter(({ incidentId }) => !open.has(incidentId)),
  };
}

/**
 * Whether the monitor takes beats and can alert. `callbackRef.endpointId` is the endpoint that alerts must go to;
 * `isMissing`: there is no such Callback.
 */
export function monitorReady(facts: {
  lifecycle: CachedMonitorStatus['lifecycle'];
  binding: BindingState | undefined;
  callbackRef?: { name: string; endpointId: string | undefined; isMissing?: boolean };
}): ConditionFacts {
  const no = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'False',
    reason,
    message,
  });
  const yes = (reason: string, message: string): ConditionFacts => ({
    type: 'Ready',
    status: 'True',
    reason,
    message,
  });
  const { lifecycle, binding, callbackRef } = facts;
  // An archived monitor needs no callback.
  if (lifecycle === 'archived') return yes('Archived', 'The monitor is archived and takes no beats.');
  if (binding === undefined)
    return no('CallbackUnknown', 'The operator has not read the callback binding yet.');
  if (callbackRef && callbackRef.endpointId === undefined) {
    const words = callbackRef.isMissing
      ? `There is no Callback ${callbackRef.name} in this namespace: create it, or name another one.`
      : `The Callback ${callbackRef.name} has no endpoint yet: see its conditions.`;
    return no('CallbackNotFound', words);
  }
  const fault = bindingFault(binding);
  if (fault) return no(fault.reason, fault.message);
  if (callbackRef && binding.target?.endpointId !== callbackRef.endpointId) {
    return no(
      'CallbackNotFound',
      `Alerts do not go to the endpoint of the Callback ${callbackRef.name} yet.`,
    );
  }
  if (binding.binding.kind === 'disabled')
    return yes('Available', 'The monitor takes beats. Its callback is disabled: it sends no alerts.');
  return yes('Available', 'The monitor takes beats and can alert.');
}

function bindingFault({ binding, unavailableReason }: BindingState): Fault | undefined {
  if (unavailableReason === undefined) return undefined;
  const named = binding.kind === 'named' ? ` ${binding.alias}` : '';
  if (unavailableReason === 'endpoint_disabled')
    return { reason: 'EndpointDisabled', message: disabledEndpointText(binding) };
  if (binding.kind === 'organization_default') {
    const message =
      'The organization has no default callback endpoint: create one, or name a callback in the spec.';
    return { reason: 'NoOrganizationDefault', message };
  }
  const message = `There is no callback endpoint${named} in the project: create it, or name another one.`;
  return { reason: 'CallbackNotFound', message };
}

function disabledEndpointText(binding: Binding): string {
  if (binding.kind === 'inline')
    return 'The inline callback was disabled, as by a receiver that answers 410 Gone, so the monitor sends no alerts: give it another url.';
  const endpoint =
    binding.kind === 'named'
      ? `callback endpoint ${binding.alias}`
      : "organization's default callback endpoint";
  return `The ${endpoint} is disabled, so the monitor sends no alerts: enable it, or choose another one. If it is meant to send none, set callback to {kind: disabled}.`;
}

/** Of a monitor that has just been made, as the feed says it: thousands that are made at once are written once. */
const NEW = 'Waiting for the first beat: no deadline runs before the first beat.';

/** Where the API says no sentence of its own. */
const WORDS: Readonly<
  Record<CachedMonitorStatus['status']['health'], readonly [reason: string, message: string]>
> = {
  up: ['Up', 'The last beat arrived in time.'],
  late: ['Late', 'The next beat is late, but still within the grace period.'],
  down: ['Down', 'A deadline was missed, a run failed or is overdue, or a critical rule is violated.'],
  recovering: ['Recovering', 'Beats arrive again, but the incident has not ended yet.'],
  maintenance: ['Maintenance', 'A maintenance window is active.'],
  waiting: ['Waiting', 'The first beat has not arrived yet.'],
  paused: ['Paused', 'The monitor is paused.'],
  archived: ['Archived', 'The monitor is archived.'],
};

/** `False` while down or while an incident of warning or more is open; `Unknown` while no beat is expected. */
export function healthyCondition({
  status: live,
  because,
}: Pick<CachedMonitorStatus, 'status' | 'because'>): ConditionFacts {
  const [reason, words] = WORDS[live.health];
  const isNew = live.health === 'waiting' && live.nextDeadlineAt === undefined;
  const message = because ?? (isNew ? NEW : words);
  if (live.health === 'paused' || live.health === 'archived') {
    return { type: 'Healthy', status: 'Unknown', reason, message };
  }
  if (live.health === 'down') return { type: 'Healthy', status: 'False', reason, message };
  const open = live.openIncidents.find(({ state, severity }) => state === 'open' && severity !== 'info');
  if (open) {
    const words = `An incident of severity ${open.severity} is open: ${open.kind}.`;
    return { type: 'Healthy', status: 'False', reason: 'IncidentOpen', message: because ?? words };
  }
  return { type: 'Healthy', status: live.health === 'waiting' ? 'Unknown' : 'True', reason, message };
}
