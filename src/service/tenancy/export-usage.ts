// The usage of an export. Each database counts what it has (docs/adr/0013): a month is the sum of all of them.
import { listUsage, type UsageOwner, type UsageRecord } from '../../store/tenancy/usage.ts';
import type { Homes } from '../calls/homes.ts';
import { readEach } from '../calls/merged-pages.ts';

/** As `listUsage`, of all databases. Throws where one is away. */
export async function readUsage(
  homes: Homes,
  owner: UsageOwner,
  page: { after?: string; limit: number },
): Promise<UsageRecord[]> {
  const found = await readEach(homes, (db) => listUsage(db, owner, page));
  const months = Map.groupBy(found.flat(), ({ period }) => period);
  // Each has given its first months: no month before the last one of the page is missing in any.
  return [...months.values()].map(sumOf).sort(byPeriod).slice(0, page.limit);
}

const byPeriod = (a: UsageRecord, b: UsageRecord) => (a.period < b.period ? -1 : 1);

function sumOf([first, ...others]: UsageRecord[]): UsageRecord {
  if (!first) throw new Error('A month without a record.');
  return others.reduce(
    (sum, one) => ({
      period: sum.period,
      activeMonitors: sum.activeMonitors + one.activeMonitors,
      beats: sum.beats + one.beats,
      deliveries: sum.deliveries + one.deliveries,
      storedObservations: sum.storedObservations + one.storedObservations,
      apiRequests: sum.apiRequests + one.apiRequests,
    }),
    first,
  );
}
