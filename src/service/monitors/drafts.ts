// Drafts of rules: create, read, update, cancel, apply (docs/contract/rules.md). replay-draft.ts replays them.
import {
  type Draft,
  MAX_CLOSED_DRAFTS,
  MAX_FROZEN_OBSERVATIONS,
  MAX_OPEN_DRAFTS,
  type Proposal,
  requireDraftVersion,
  requireOpenDraft,
} from '../../domain/draft.ts';
import { newId } from '../../domain/id.ts';
import type { MonitorConfiguration } from '../../domain/monitor.ts';
import { notFound, ProblemError } from '../../domain/problem.ts';
import { keptObservations } from '../../domain/retention.ts';
import { findNewestWindow } from '../../store/beats/frozen-window.ts';
import {
  countOpenDrafts,
  findDraft,
  insertDraft,
  lockDraft,
  trimClosedDrafts,
  updateDraft,
} from '../../store/monitors/drafts.ts';
import { lockLive } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { findLockedMonitor, type MonitorName } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { findMonitor, findMonitorRef } from './monitor-access.ts';
import { changeConfiguration, type Merge } from './monitor-configuration.ts';
import { requireAllowedRules } from './monitor-rules.ts';

export interface MonitorDraft {
  monitor: Pick<MonitorRecord, 'monitorId' | 'jurisdiction'>;
  draft: Draft;
}

/** How a call names a draft. */
export interface DraftName {
  monitor: MonitorName;
  draftId: string;
}

/** Throws `not_found` and `conflict`. */
export async function readDraft(
  db: Queryable,
  name: DraftName,
): Promise<MonitorDraft & { monitor: MonitorRecord }> {
  const monitor = await findMonitor(db, name.monitor);
  const draft = await findDraft(db, { ...monitor, draftId: name.draftId });
  if (!draft) throw notFound();
  return { monitor, draft };
}

/**
 * Creates a draft, freezes its window, and deletes the monitor's oldest closed drafts past their number. The lock of the
 * live row keeps beats, deletion and other creations away meanwhile.
 * Throws `not_found`, `plan_limit_reached`, and `conflict` also for a monitor with too many open drafts.
 */
export async function createDraft(
  tx: Queryable,
  context: Pick<ServiceContext, 'findPlan'>,
  { name, proposal }: { name: MonitorName; proposal: Proposal },
): Promise<MonitorDraft> {
  const ref = await findMonitorRef(tx, name);
  const { nowMs } = await lockLive(tx, [ref]);
  const monitor = await findLockedMonitor(tx, ref);
  // It was deleted between the two statements.
  if (!monitor) throw notFound();
  requireAllowedProposal(context, monitor, proposal);
  if ((await countOpenDrafts(tx, ref, MAX_OPEN_DRAFTS)) >= MAX_OPEN_DRAFTS) {
    throw new ProblemError('conflict', {
      detail: `The monitor has ${MAX_OPEN_DRAFTS} open drafts: cancel or apply one first.`,
    });
  }
  const kept = keptObservations(context.findPlan(monitor.planId), {
    nowMs,
    lastSequence: monitor.live.lastSequence,
  });
  const bounds = { ...kept, limit: MAX_FROZEN_OBSERVATIONS };
  const draft: Draft = {
    draftId: newId('draft', nowMs),
    version: 1,
    baseConfigurationVersion: monitor.configurationVersion,
    status: 'open',
    proposal,
    history: await findNewestWindow(tx, ref, bounds, nowMs),
    createdMs: nowMs,
    updatedMs: nowMs,
  };
  await insertDraft(tx, ref, draft);
  await trimClosedDrafts(tx, ref, MAX_CLOSED_DRAFTS);
  return { monitor, draft };
}

/** Throws `plan_limit_reached` for a rule that the plan does not have, and the monitor has not kept from a larger one. */
function requireAllowedProposal(
  { findPlan }: Pick<ServiceContext, 'findPlan'>,
  { planId, configuration }: MonitorRecord,
  proposal: Proposal,
): void {
  const after = { [proposal.measurementKey]: proposal.definition };
  requireAllowedRules(findPlan(planId), { before: configuration.measurements, after }, pathInProposal);
}

const pathInProposal = (_key: string, field: string) => `proposal.definition.${field}`;

/** Locks a draft that may be changed. Throws `not_found`, `draft_closed`. */
async function lockOpenDraft(
  tx: Queryable,
  { monitor, draftId }: DraftName,
): Promise<MonitorDraft & { monitor: MonitorRecord }> {
  const record = await findMonitor(tx, monitor);
  const draft = await lockDraft(tx, { ...record, draftId });
  if (!draft) throw notFound();
  requireOpenDraft(draft);
  return { monitor: record, draft };
}

/** Replaces the proposal. Throws `not_found`, `draft_closed`, `plan_limit_reached`, and `conflict` also for a stale version. */
export async function changeDraft(
  tx: Queryable,
  context: Pick<ServiceContext, 'findPlan'>,
  { name, expectedVersion, proposal }: { name: DraftName; expectedVersion: number; proposal: Proposal },
  nowMs: number,
): Promise<MonitorDraft> {
  const { monitor, draft } = await lockOpenDraft(tx, name);
  requireDraftVersion(draft, expectedVersion, 'conflict');
  requireAllowedProposal(context, monitor, proposal);
  const changed: Draft = { ...draft, version: draft.version + 1, proposal, updatedMs: nowMs };
  await updateDraft(tx, monitor, changed);
  return { monitor, draft: changed };
}

/** Throws `not_found`, `draft_closed`, and `conflict` also for a stale version. */
export async function cancelDraft(
  tx: Queryable,
  { name, expectedVersion }: { name: DraftName; expectedVersion?: number },
  nowMs: number,
): Promise<MonitorDraft> {
  const { monitor, draft } = await lockOpenDraft(tx, name);
  requireDraftVersion(draft, expectedVersion, 'conflict');
  const canceled: Draft = { ...draft, status: 'canceled', closedMs: nowMs };
  await updateDraft(tx, monitor, canceled);
  return { monitor, draft: canceled };
}

export interface DraftApplication {
  name: DraftName;
  expectedVersion: number;
  expectedConfigurationVersion: number;
  /** The configuration with the proposal in place of the measurement's rule. Throws what it may not have. */
  merge: (current: MonitorConfiguration, proposal: Proposal) => MonitorConfiguration;
}

/**
 * Changes the configuration as a PATCH does, and closes the draft with it. Throws `not_found`, `conflict`, `draft_closed`,
 * `precondition_failed` for a stale version of either, `plan_limit_reached`, and what `merge` throws.
 */
export async function applyDraft(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  { name, expectedVersion, expectedConfigurationVersion, merge }: DraftApplication,
): Promise<MonitorDraft> {
  // The live row before the draft: the order of all writers.
  const { nowMs } = await lockLive(tx, [await findMonitorRef(tx, name.monitor)]);
  const { draft } = await lockOpenDraft(tx, name);
  requireDraftVersion(draft, expectedVersion, 'precondition_failed');
  const mergeProposal: Merge = (current) => merge(current, draft.proposal);
  const versioned = { ...name.monitor, expectedVersion: expectedConfigurationVersion };
  const change = { name: versioned, merge: mergeProposal, pathOfRule: pathInProposal };
  const monitor = await changeConfiguration(tx, context, caller, change);
  const applied: Draft = {
    ...draft,
    status: 'applied',
    appliedConfigurationVersion: monitor.configurationVersion,
    closedMs: nowMs,
  };
  await updateDraft(tx, monitor, applied);
  return { monitor, draft: applied };
}
