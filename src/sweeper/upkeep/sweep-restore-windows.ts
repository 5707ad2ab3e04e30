// Deletes archived monitors whose 30 days are over, as a delete does (docs/contract/monitors.md).
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import { eraseMonitor } from '../../service/monitors/monitors.ts';
import { lockLive, type MonitorRef } from '../../store/monitors/live.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import { findLockedMonitor } from '../../store/monitors/monitors.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { findExpiredMonitors } from '../../store/upkeep/retention.ts';
import { boundMonitor, writeAudit } from '../../telemetry/audit.ts';
import type { Log } from '../../telemetry/log.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 100;

/** Deletes up to 100 of them. A failure is logged and does not hold up the others. */
export async function sweepRestoreWindows({ pool, log }: JobDeps): Promise<RunResult> {
  const refs = await findExpiredMonitors(pool, BATCH);
  let erased = 0;
  for (const ref of refs) {
    try {
      const gone = await eraseExpired(pool, ref);
      if (!gone) continue;
      erased += 1;
      if (gone.hadInline) auditRemoved(log, gone.monitor);
    } catch (err) {
      log.error({ err, ...ref }, 'An archived monitor could not be deleted. It will be tried again.');
    }
  }
  if (erased > 0) log.info({ erased }, 'Archived monitors were deleted. Their time to be restored was over.');
  // A batch of which nothing could be deleted would come again at once.
  return refs.length === BATCH && erased > 0 ? 'more' : 'idle';
}

interface ErasedMonitor {
  monitor: MonitorRecord;
  /** Whether an inline endpoint went with it. */
  hadInline: boolean;
}

/** Reads the monitor again under the lock: somebody may have restored it. */
async function eraseExpired(pool: Pool, ref: MonitorRef): Promise<ErasedMonitor | undefined> {
  return await inTransaction(pool, async (tx) => {
    const { nowMs } = await lockLive(tx, [ref]);
    const monitor = await findLockedMonitor(tx, ref);
    const until = monitor?.restorableUntilMs;
    if (monitor?.lifecycle !== 'archived' || until === undefined || until > nowMs) return undefined;
    return { monitor, hadInline: await eraseMonitor(tx, monitor, { actor: SYSTEM_ACTOR, nowMs }) };
  });
}

function auditRemoved(log: Log, monitor: MonitorRecord): void {
  const object = boundMonitor(monitor, monitor.binding.inlineEndpointId);
  writeAudit(log, { actor: SYSTEM_ACTOR, action: 'binding.remove', object });
}
