// Tells the default database what the database of a jurisdiction has found out of endpoints (docs/adr/0013). Every replica
// does: a report that comes twice changes nothing the second time.
import { disableEndpoint } from '../../service/callbacks/callback-changes.ts';
import { isSameUrl } from '../../service/callbacks/endpoint-seal.ts';
import {
  type EndpointReport,
  findReports,
  recordReports,
  writeReportedDeliveries,
} from '../../store/directory/endpoint-reports.ts';
import { queueRows } from '../../store/directory/fill-place.ts';
import type { Place } from '../../store/postgres/databases.ts';
import type { Pool, Queryable } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import { inTransaction, readNow } from '../../store/postgres/transaction.ts';
import type { RunResult } from '../loop.ts';

const REPORTS = 100;

/** One bounded step. It may fail after each statement, and is then done again. */
export async function reportEndpoints(source: Pool, place: Place, secrets: SecretBox): Promise<RunResult> {
  const reports = await findReports(place.pool, REPORTS);
  if (reports.length === 0) return 'idle';
  await inTransaction(source, async (tx) => {
    await writeReportedDeliveries(tx, reports);
    for (const report of reports) await disableGone(tx, place, { report, secrets });
  });
  await recordReports(place.pool, reports);
  return reports.length === REPORTS ? 'more' : 'idle';
}

/** The place gets the endpoint as the default database has it where that does not follow. */
async function disableGone(
  tx: Queryable,
  place: Place,
  { report, secrets }: { report: EndpointReport; secrets: SecretBox },
): Promise<void> {
  const { gone, projectId, endpointId } = report;
  if (!gone) return;
  const ref = { projectId, endpointId };
  const isAddress = (current: Buffer) =>
    gone.urlBox !== null && isSameUrl(secrets, ref, [current, gone.urlBox]);
  if (await disableEndpoint(tx, { ...ref, reason: gone.reason, isAddress }, await readNow(tx))) return;
  await queueRows(tx, place, 'callback_endpoints', [{ project_id: projectId, endpoint_id: endpointId }]);
}
