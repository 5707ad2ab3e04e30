// Lifecycle actions (docs/contract/monitors.md). The domain decides what is allowed and what it does to the clock. This
// file makes the other changes: incidents, the plan's counter, the change record.
import { type LifecycleAction, RESTORABLE_MS, changeLifecycle as step } from '../../domain/lifecycle.ts';
import { type MaintenanceWindow, recursAfterExit } from '../../domain/maintenance.ts';
import { type Lifecycle, suppression } from '../../domain/monitor.ts';
import type { Plan } from '../../domain/plan.ts';
import { invalidField } from '../../domain/problem.ts';
import type { ChangeKind } from '../../store/monitors/monitor-changes.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { freeMonitorSlots } from '../../store/monitors/monitors.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import type { Caller, ServiceContext } from '../calls/context.ts';
import { recordTransitions } from '../incidents/incident-writer.ts';
import { type LockedMonitor, lockMonitor, saveMonitor, type VersionedName } from './monitor-access.ts';
import { alertSubject, resolveOpenIncidents, takeSlot } from './monitors.ts';

export interface LifecycleChange {
  name: VersionedName;
  action: LifecycleAction;
  /** Of `enter_maintenance`. The contract checks its order and length. */
  maintenance?: MaintenanceWindow;
}

/**
 * Applies an action. Throws `not_found`, `conflict` (also for an action that is not allowed), `precondition_failed`,
 * `validation_failed` for a window in the past, `plan_limit_reached` for a restore without a free slot.
 */
export async function changeLifecycle(
  tx: Queryable,
  context: ServiceContext,
  caller: Caller,
  change: LifecycleChange,
): Promise<MonitorRecord> {
  const locked = await lockMonitor(tx, context, change.name);
  const { record, timing, nowMs } = locked;
  const { action, maintenance } = change;
  const next = step(timing, record.live, action, { nowMs, window: maintenance });
  if (maintenance && maintenance.endsMs <= nowMs) {
    throw invalidField('maintenance.endsAt', 'Must be in the future.', 'ends_in_past');
  }
  const isArchived = action === 'archive';
  if (isArchived) await endIncidents(tx, locked, caller);
  const changed: MonitorRecord = {
    ...record,
    origin: isGivenUp(record, action, caller) ? undefined : record.origin,
    lifecycle: next.timing.lifecycle,
    maintenance: action === 'enter_maintenance' ? maintenance : undefined,
    recursSinceMs:
      action === 'exit_maintenance' ? recursAfterExit(record, timing, nowMs) : record.recursSinceMs,
    restorableUntilMs: isArchived ? nowMs + RESTORABLE_MS : undefined,
    openIncidents: isArchived ? [] : record.openIncidents,
  };
  const live = isArchived ? { ...next.live, openIncidents: 0 } : next.live;
  const saved = await saveMonitor(
    tx,
    caller,
    { record: changed, live, change: changeKind(record.lifecycle, changed, change) },
    nowMs,
  );
  await countSlots(tx, record, action, context.findPlan(record.planId));
  return saved;
}

/** What somebody restores without its object is theirs from then on: else it would be archived again. */
function isGivenUp({ origin }: MonitorRecord, action: LifecycleAction, { actor }: Caller): boolean {
  return action === 'restore' && origin?.orphanedMs !== undefined && actor.kind !== 'operator';
}

function changeKind(from: Lifecycle, changed: MonitorRecord, change: LifecycleChange): ChangeKind {
  const { action, maintenance } = change;
  return { kind: 'lifecycle', action, from, to: changed.lifecycle, maintenance };
}

/** Resolves open incidents. Each sends its alert, unless alerts are suppressed now. */
async function endIncidents(tx: Queryable, { record, timing, nowMs }: LockedMonitor, caller: Caller) {
  const transitions = await resolveOpenIncidents(tx, record, { actor: caller.actor, nowMs });
  const subject = alertSubject(record, { ...record.live, deadlineMs: undefined });
  await recordTransitions(tx, [{ ...subject, suppressed: suppression(timing, nowMs), transitions }], nowMs);
}

async function countSlots(
  tx: Queryable,
  { organizationId }: MonitorRecord,
  action: LifecycleAction,
  plan: Plan,
): Promise<void> {
  if (action === 'archive') await freeMonitorSlots(tx, organizationId, 1);
  if (action === 'restore') await takeSlot(tx, organizationId, plan, 'action');
}
