// The status of a Monitor from what the API says of it, and what of a new status is worth a write. Pure.
import type { Monitor } from '../../../contract/resources/monitor.ts';
import { isSameStatus } from '../../../kube/apply-status.ts';
import { type ConditionFacts, type KubeCondition, setCondition } from '../../../kube/conditions.ts';
import type { CachedMonitorStatus } from '../../known/monitor-status-cache.ts';
import { displayCallback, displayIncident, displayInterval } from './display.ts';
import { healthyCondition } from './monitor-conditions.ts';
import type { MonitorObject } from './monitor-object.ts';

export type MonitorStatusObject = NonNullable<MonitorObject['status']>;

export interface MonitorStatusFacts {
  object: MonitorObject;
  nowMs: number;
  /** The state of the monitor; undefined: what the status has stays. */
  live?: CachedMonitorStatus;
  /** The configuration as it was read in this pass; undefined: it has not changed. */
  record?: Monitor;
  /** Replaces these fields of the status. */
  fields: Partial<
    Pick<MonitorStatusObject, 'monitorId' | 'projectId' | 'ownedFields' | 'specHash' | 'publishSecretRef'>
  >;
  /** Replaces these conditions; `Healthy` follows from `live`. */
  conditions: readonly ConditionFacts[];
  /** False: this generation is not reconciled yet. Default true. */
  isObserved?: boolean;
}

export function monitorStatusOf(facts: MonitorStatusFacts): MonitorStatusObject {
  const { object, live, record, fields } = facts;
  const previous = object.status ?? {};
  return {
    ...previous,
    ...fields,
    observedGeneration: facts.isObserved === false ? previous.observedGeneration : object.metadata.generation,
    ...(live === undefined ? {} : liveFields(live)),
    ...(live === undefined ? {} : { restorableUntil: restorableUntil(live, record, previous) }),
    display: displayOf(facts, previous),
    conditions: conditionsOf(facts, previous.conditions),
  };
}

function liveFields({
  status,
  lifecycle,
  configurationVersion,
}: CachedMonitorStatus): Partial<MonitorStatusObject> {
  const { health, firstBeatAt, lastBeatAt, nextDeadlineAt, cadence, openIncidents } = status;
  return {
    ...{ configurationVersion, lifecycle, health, firstBeatAt, lastBeatAt, nextDeadlineAt, cadence },
    openIncidents: openIncidents.length === 0 ? undefined : openIncidents,
  };
}

function restorableUntil(
  { lifecycle }: CachedMonitorStatus,
  record: Monitor | undefined,
  previous: MonitorStatusObject,
): string | undefined {
  if (lifecycle !== 'archived') return undefined;
  return record === undefined ? previous.restorableUntil : record.restorableUntil;
}

function displayOf(
  { live, record, object }: MonitorStatusFacts,
  previous: MonitorStatusObject,
): MonitorStatusObject['display'] {
  if (live === undefined) return previous.display;
  const { cadence, openIncidents } = live.status;
  const cron = record?.schedule?.cron ?? object.spec.schedule?.cron;
  return {
    interval: displayInterval(cadence, cron) ?? previous.display?.interval,
    incident: displayIncident(openIncidents),
    callback: record === undefined ? previous.display?.callback : displayCallback(record.callback),
  };
}

function conditionsOf(facts: MonitorStatusFacts, previous: KubeCondition[] | undefined): KubeCondition[] {
  const moment = { generation: facts.object.metadata.generation, nowMs: facts.nowMs };
  const healthy =
    facts.live === undefined && previous !== undefined ? [] : [healthyCondition(facts.live?.status)];
  return [...facts.conditions, ...healthy].reduce<KubeCondition[]>(
    (conditions, condition) => setCondition(conditions, condition, moment),
    previous ?? [],
  );
}

/** True if nothing differs but what every beat moves: that is written now and then only. */
export function isBeatAlone(before: MonitorStatusObject | undefined, after: MonitorStatusObject): boolean {
  return isSameStatus(withoutBeat(before ?? {}), withoutBeat(after));
}

function withoutBeat(status: MonitorStatusObject): object {
  const { lastBeatAt, nextDeadlineAt, cadence, display, ...rest } = status;
  const isLearned = cadence?.source === 'learned';
  return {
    ...rest,
    // That there is one at all is news; when exactly is not.
    ...{ hasBeat: lastBeatAt !== undefined, hasDeadline: nextDeadlineAt !== undefined },
    cadence: cadence?.source === 'configured' ? cadence : { source: cadence?.source },
    display: { ...display, interval: isLearned ? 'learned' : display?.interval },
  };
}
