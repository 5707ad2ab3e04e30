// Monitors: create, read, delete. Lists are in monitor-pages.ts; changes are in monitor-configuration.ts,
// monitor-lifecycle.ts, publish-address.ts and callbacks/bindings.ts.
import { randomUUID } from 'node:crypto';
import { checkDestination } from '../../delivery/webhook/destination.ts';
import type { UnavailableReason } from '../../domain/callback.ts';
import { startClock, withWake } from '../../domain/deadline.ts';
import { newId, newUuid } from '../../domain/id.ts';
import { type Actor, resolveIncident, type Transition } from '../../domain/incident.ts';
import {
  type Jurisdiction,
  type LiveState,
  type MonitorConfiguration,
  newLiveState,
  type Timing,
} from '../../domain/monitor.ts';
import type { MonitorOrigin } from '../../domain/origin.ts';
import { type Plan, planLimitReached } from '../../domain/plan.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { keptObservations } from '../../domain/retention.ts';
import { findLatestObservation, type ObservationRecord } from '../../store/beats/observations-read.ts';
import { cancelDeliveriesOf } from '../../store/deliveries/cancellations.ts';
import { findOpenIncidents } from '../../store/incidents/incidents.ts';
import type { MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import {
  countActiveMonitors,
  deleteMonitor as deleteMonitorRows,
  findStanding,
  freeMonitorSlots,
  insertMonitor,
  type MonitorName,
  type OrganizationStanding,
  takeMonitorSlot,
} from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readNow } from '../../store/postgres/transaction.ts';
import { resolveTargets } from '../callbacks/callback-targets.ts';
import { countEndpoint, uncountEndpoint } from '../callbacks/endpoint-count.ts';
import type { IssuedSecret } from '../callbacks/endpoint-seal.ts';
import { createInlineEndpoint, removeInlineEndpoint } from '../callbacks/inline-endpoints.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import type { AtTheEnd } from '../calls/write.ts';
import { recordTransitions } from '../incidents/incident-writer.ts';
import { requireDependencies } from './dependencies.ts';
import { changeRecordOf, findMonitor, lockMonitor, timingOf, type VersionedName } from './monitor-access.ts';
import { requireAllowedCadence } from './monitor-cadence.ts';
import { claimOrigin } from './monitor-origin.ts';

/** A binding as a caller sends it (docs/contract/callbacks.md). */
export type BindingInput =
  | { kind: 'organization_default' }
  | { kind: 'named'; alias: string }
  | { kind: 'inline'; url: string }
  | { kind: 'disabled' };

export interface MonitorInput {
  /** Default: the service makes one. */
  monitorId?: string;
  jurisdiction: Jurisdiction;
  configuration: MonitorConfiguration;
  binding: BindingInput;
  /** Of the operator alone. */
  origin?: MonitorOrigin;
}

export interface CreatedMonitor {
  monitor: MonitorRecord;
  /** Of an inline binding: shown once. */
  secret?: IssuedSecret;
  /** Why alerts go nowhere as it stands now. */
  unavailableReason?: UnavailableReason;
}

/** Checks the URL of an inline binding by DNS. Call it before the transaction. Throws as checkDestination does. */
export async function checkBinding(
  context: ServiceContext,
  binding: BindingInput,
  path: string,
): Promise<void> {
  if (binding.kind === 'inline') await checkDestination(binding.url, context.destinations, path);
}

/**
 * Creates a monitor, its address and its first change record. The caller has checked the binding with checkBinding.
 * Throws `conflict` for an id that is taken in the jurisdiction, `origin_taken`, and `plan_limit_reached`.
 */
export async function createMonitor(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  creation: { input: MonitorInput; nowMs: number; atTheEnd: AtTheEnd },
): Promise<CreatedMonitor> {
  const { input, nowMs, atTheEnd } = creation;
  const standing = await findStanding(tx, caller);
  if (!standing) throw notFound();
  const plan = context.findPlan(standing.planId);
  requireAllowedCadence(plan, input.configuration, nowMs);
  const { projectId } = caller;
  const { monitorId = newId('mon'), jurisdiction, configuration } = input;

  const ref = { projectId: caller.projectId, monitorKey: newUuid() };
  const { binding } = input;
  const inline =
    binding.kind === 'inline'
      ? await createInlineEndpoint(tx, context, { ...ref, url: binding.url }, nowMs)
      : undefined;
  const record: MonitorRecord = {
    ...newRecord({ ...input, monitorId }, nowMs),
    ...ref,
    ...standing,
    organizationId: caller.organizationId,
    binding: {
      kind: binding.kind,
      alias: binding.kind === 'named' ? binding.alias : undefined,
      inlineEndpointId: inline?.endpointId,
    },
    inlineUrlBox: inline?.urlBox,
  };
  record.live = firstLive(timingOf(context, record), nowMs);
  if (record.origin) await claimOrigin(tx, caller, { ...record, origin: record.origin });
  // Behind the locks of live rows, as a change of the configuration does.
  await requireDependencies(tx, { projectId, monitorId, jurisdiction, dependsOn: configuration.dependsOn });
  if (!(await insertMonitor(tx, record, changeRecordOf(caller, record, { kind: 'configuration' })))) {
    // Another transaction may have taken it since.
    if (record.origin) await claimOrigin(tx, caller, { ...record, origin: record.origin });
    throw idTaken(record);
  }
  atTheEnd((last) => takeSlot(last, record.organizationId, plan));
  if (inline) atTheEnd((last) => countEndpoint(last, context, record.organizationId, 'callback'));
  const target = (await resolveTargets(tx, [record])).get(record.monitorKey);
  return {
    monitor: record,
    secret: inline?.secret,
    unavailableReason: target && 'unavailableReason' in target ? target.unavailableReason : undefined,
  };
}

function idTaken({ monitorId, jurisdiction }: MonitorRecord): ProblemError {
  return new ProblemError('conflict', {
    detail: `The project already has a monitor ${monitorId} in the jurisdiction ${jurisdiction}: choose another monitorId.`,
    fieldErrors: [{ code: 'not_unique', message: 'Choose another monitorId.', path: 'monitorId' }],
  });
}

/** The new monitor's own part of its record. The rest comes from its project and its binding. */
function newRecord(
  { monitorId, jurisdiction, configuration, origin }: MonitorInput & { monitorId: string },
  nowMs: number,
): Omit<MonitorRecord, keyof MonitorRef | keyof OrganizationStanding | 'organizationId' | 'binding'> {
  return {
    monitorId,
    jurisdiction,
    configuration,
    origin,
    configurationVersion: 1,
    lifecycle: 'active',
    publishAddress: randomUUID(),
    createdMs: nowMs,
    updatedMs: nowMs,
    live: newLiveState(),
    openIncidents: [],
    nowMs,
  };
}

/** Without awaitFirstBeat the deadline runs from creation (docs/contract/monitors.md). */
function firstLive(timing: Timing, nowMs: number): LiveState {
  const live = newLiveState();
  return withWake(timing, timing.awaitFirstBeat ? live : startClock(timing, live, nowMs), nowMs);
}

/**
 * Counts one more active monitor. Call it last in a transaction. Throws `plan_limit_reached`, with the `path` of the
 * field that asks for the slot, where there is one.
 */
export async function takeSlot(
  tx: Queryable,
  organizationId: string,
  plan: Plan,
  path?: string,
): Promise<void> {
  const limit = plan.activeMonitors;
  if (await takeMonitorSlot(tx, organizationId, limit)) return;
  const current = await countActiveMonitors(tx, organizationId);
  const exceeded = { dimension: 'active_monitors', limit, current, attempted: current + 1 } as const;
  throw planLimitReached(plan, exceeded, path);
}

/** One monitor with its latest observation. Throws `not_found` and `conflict`. */
export async function readMonitor(
  db: Queryable,
  { findPlan }: Pick<ServiceContext, 'findPlan'>,
  name: MonitorName,
): Promise<{ monitor: MonitorRecord; latestObservation?: ObservationRecord }> {
  const monitor = await findMonitor(db, name);
  const { nowMs, planId, live } = monitor;
  const { lastSequence, lastBeatMs } = live;
  const { fromMs } = keptObservations(findPlan(planId), { nowMs, lastSequence });
  const last = { sequence: lastSequence, lastBeatMs, keptFromMs: fromMs };
  return { monitor, latestObservation: await findLatestObservation(db, monitor, last) };
}

/**
 * Deletes a monitor for good. Returns it where an inline endpoint went with it.
 * Throws `not_found`, `conflict` and `precondition_failed`.
 */
export async function deleteMonitor(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  name: VersionedName,
): Promise<MonitorRecord | undefined> {
  const { record, nowMs } = await lockMonitor(tx, context, name);
  return (await eraseMonitor(tx, record, { actor: caller.actor, nowMs })) ? record : undefined;
}

/**
 * Removes a monitor with its open work: open incidents are resolved without an alert, pending deliveries canceled
 * (docs/contract/callbacks.md). The caller has locked the live row. The sweeper calls it when the time to restore an
 * archived monitor has passed. Returns whether an inline endpoint went with it.
 */
export async function eraseMonitor(
  tx: Queryable,
  record: MonitorRecord,
  by: { actor: Actor; nowMs: number },
): Promise<boolean> {
  const { actor, nowMs } = by;
  const transitions = (await resolveOpenIncidents(tx, record, by)).map((transition) => ({
    ...transition,
    event: undefined,
  }));
  await recordTransitions(tx, [{ ...alertSubject(record, record.live), transitions }], nowMs);
  const why = { reason: 'monitor_deleted', actor } as const;
  const { projectId, binding } = record;
  const { inlineEndpointId: endpointId } = binding;
  const isRemoved =
    endpointId !== undefined && (await removeInlineEndpoint(tx, { projectId, endpointId }, why, nowMs));
  await cancelDeliveriesOf(tx, record, why, await readNow(tx));
  await deleteMonitorRows(tx, record, nowMs);
  if (record.lifecycle !== 'archived') await freeMonitorSlots(tx, record.organizationId, 1);
  if (isRemoved) await uncountEndpoint(tx, record.organizationId);
  return isRemoved;
}

/** The transitions that resolve all open incidents of a locked monitor. The caller records them. */
export async function resolveOpenIncidents(
  tx: Queryable,
  record: MonitorRecord,
  by: { actor: Actor; nowMs: number },
): Promise<Transition[]> {
  const incidents = (await findOpenIncidents(tx, [record])).get(record.monitorKey) ?? [];
  return incidents.flatMap((incident) => resolveIncident(incident, { actor: by.actor }, by.nowMs) ?? []);
}

/** What alerts show of a monitor. */
export function alertSubject(record: MonitorRecord, live: LiveState) {
  const { projectId, monitorKey, monitorId, jurisdiction, organizationId, projectName, binding } = record;
  const { name, labels } = record.configuration;
  return {
    projectId,
    monitorKey,
    monitorId,
    jurisdiction,
    organizationId,
    projectName,
    binding,
    name,
    labels,
    lastBeatMs: live.lastBeatMs,
    nextDeadlineMs: live.deadlineMs,
  };
}
