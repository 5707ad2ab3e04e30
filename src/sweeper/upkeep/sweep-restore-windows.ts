// Deletes archived monitors whose 30 days are over, as a delete does (docs/contract/monitors.md).
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import { eraseMonitor } from '../../service/monitors/monitors.ts';
import { lockLive, type MonitorRef } from '../../store/monitors/live.ts';
import { findLockedMonitor } from '../../store/monitors/monitors.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { findExpiredMonitors } from '../../store/upkeep/retention.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 100;

/** Deletes up to 100 of them. A failure is logged and does not hold up the others. */
export async function sweepRestoreWindows({ pool, log }: JobDeps): Promise<RunResult> {
  const refs = await findExpiredMonitors(pool, BATCH);
  let erased = 0;
  for (const ref of refs) {
    try {
      if (await eraseExpired(pool, ref)) erased += 1;
    } catch (err) {
      log.error({ err, ...ref }, 'An archived monitor could not be deleted. It will be tried again.');
    }
  }
  if (erased > 0) log.info({ erased }, 'Archived monitors were deleted. Their time to be restored was over.');
  // A batch of which nothing could be deleted would come again at once.
  return refs.length === BATCH && erased > 0 ? 'more' : 'idle';
}

/** Reads the monitor again under the lock: somebody may have restored it. */
async function eraseExpired(pool: Pool, ref: MonitorRef): Promise<boolean> {
  return await inTransaction(pool, async (tx) => {
    const { nowMs } = await lockLive(tx, [ref]);
    const record = await findLockedMonitor(tx, ref);
    const until = record?.restorableUntilMs;
    if (record?.lifecycle !== 'archived' || until === undefined || until > nowMs) return false;
    await eraseMonitor(tx, record, { actor: SYSTEM_ACTOR, nowMs });
    return true;
  });
}
