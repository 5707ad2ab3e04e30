// Ends service states whose time is over: a grace, and the time after a cancellation (docs/contract/organization.md).
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import { type StandingChange, settleOrganization } from '../../service/billing/settle-organization.ts';
import { isDatabaseUnavailable } from '../../store/postgres/database-error.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { inTransaction, readNow } from '../../store/postgres/transaction.ts';
import { lockBilling } from '../../store/tenancy/billing.ts';
import { listDueOrganizations } from '../../store/upkeep/due-states.ts';
import { auditStanding } from '../../telemetry/audit.ts';
import type { RunResult } from '../loop.ts';
import type { JobDeps } from './job.ts';

const BATCH = 100;

/** Up to 100 of them. A failure is logged and does not hold up the others; a database that is away ends the step. */
export async function sweepServiceStates({ pool, log }: JobDeps): Promise<RunResult> {
  const due = await listDueOrganizations(pool, BATCH);
  let settled = 0;
  for (const organizationId of due) {
    try {
      const changes = await settleDue(pool, organizationId);
      settled += 1;
      for (const change of changes)
        auditStanding(log, SYSTEM_ACTOR, { ...change, cause: `the time of ${change.from} is over` });
    } catch (err) {
      if (isDatabaseUnavailable(err)) throw err;
      log.error(
        { err, organizationId },
        'A service state that is over could not be ended. It will be tried again.',
      );
    }
  }
  // A batch of which nothing could be settled would come again at once.
  return due.length === BATCH && settled > 0 ? 'more' : 'idle';
}

/** An event that comes at the same time is before or after it. Each leaves what follows from all that is known. */
async function settleDue(pool: Pool, organizationId: string): Promise<StandingChange[]> {
  return await inTransaction(pool, async (tx) => {
    await lockBilling(tx);
    const settling = { nowMs: await readNow(tx), isLost: false, isReconciled: false };
    return await settleOrganization(tx, organizationId, settling);
  });
}
