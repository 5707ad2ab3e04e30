// Why each monitor of a page of the status feed is in its state: the sentence of `explain` (docs/contract/monitors.md), from
// what the page has read. The outages of Beatkeeper alone are read for it, once for all of them.
import { becauseOf } from '../../domain/explain/because.ts';
import { quickDeadlines } from '../../domain/explain/quick-deadline.ts';
import type { Outage } from '../../domain/monitor.ts';
import { mergeOutages } from '../../domain/silence.ts';
import type { FeedItem } from '../../store/monitors/status-feed.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { readOutages } from '../../store/upkeep/service-clock.ts';
import type { ServiceContext } from '../calls/context.ts';
import { explainedService } from './explained-service.ts';
import { timingOf } from './monitor-access.ts';

type Context = Pick<ServiceContext, 'minimumIntervalSeconds'>;

export interface ExplainedItem extends FeedItem {
  because: string;
}

export async function explainItems(
  db: Queryable,
  context: Context,
  items: readonly FeedItem[],
): Promise<ExplainedItem[]> {
  const outages = await readOutagesOf(db, items);
  return items.map((item) => ({ ...item, because: explainItem(context, item, outages) }));
}

/** Those in the silences that run or have ended in an incident. */
async function readOutagesOf(db: Queryable, items: readonly FeedItem[]): Promise<Outage[]> {
  let sinceMs = Number.POSITIVE_INFINITY;
  for (const { monitor } of items) {
    const { anchorMs, deadlineMs, openIncidents } = monitor.live;
    if (deadlineMs !== undefined || openIncidents > 0)
      sinceMs = Math.min(sinceMs, anchorMs ?? deadlineMs ?? sinceMs);
  }
  return Number.isFinite(sinceMs) ? mergeOutages(await readOutages(db, sinceMs)) : [];
}

function explainItem(context: Context, { monitor, action }: FeedItem, outages: readonly Outage[]): string {
  const { live, updatedMs } = monitor;
  const timing = timingOf(context, monitor);
  const { serviceState, suspendedMs, restsSinceMs } = explainedService(timing, monitor);
  const state = {
    atMs: monitor.nowMs,
    timing,
    live,
    incidents: monitor.openIncidents,
    outages,
    // Of the changes since the clock started it has the newest one.
    changes: updatedMs > (live.anchorMs ?? 0) ? [updatedMs] : [],
    action,
    serviceState,
    suspendedMs,
    restsSinceMs,
  };
  return becauseOf(state, quickDeadlines(state));
}
