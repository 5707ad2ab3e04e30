// Why each monitor of a page of the status feed is in its state: the sentence of `explain` (docs/contract/monitors.md), from
// what the page has read. The outages of Beatkeeper are read for it, and of operators that beat some of the monitors, once for
// all of them.
import { becauseOf } from '../../domain/explain/because.ts';
import { quickDeadlines } from '../../domain/explain/quick-deadline.ts';
import type { OperatorSigns } from '../../domain/operator-sign.ts';
import { mergeOutages } from '../../domain/silence.ts';
import type { FeedItem } from '../../store/monitors/status-feed.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { type OperatorRef, readOperators } from '../../store/upkeep/operator-signs.ts';
import { readOutages } from '../../store/upkeep/service-clock.ts';
import type { ServiceContext } from '../calls/context.ts';
import { type KnownOutages, withOperator } from './explained-outages.ts';
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
  const sinceMs = firstSilence(items);
  const serviceOutages = Number.isFinite(sinceMs) ? mergeOutages(await readOutages(db, sinceMs)) : [];
  const operators = await readOperators(
    db,
    items.flatMap(operatorOf),
    Math.min(sinceMs, Number.MAX_SAFE_INTEGER),
  );
  const known = new Map<OperatorSigns, KnownOutages>();
  const outagesOf = (item: FeedItem): KnownOutages => {
    const [operator] = operatorOf(item);
    if (!operator) return { outages: serviceOutages };
    const signs = operators.of(operator, item.monitor);
    const found = known.get(signs) ?? withOperator(serviceOutages, signs);
    known.set(signs, found);
    return found;
  };
  return items.map((item) => ({ ...item, because: explainItem(context, item, outagesOf(item)) }));
}

function operatorOf({ monitor: { organizationId, beatenBy } }: FeedItem): OperatorRef[] {
  return beatenBy === undefined ? [] : [{ organizationId, operatorId: beatenBy }];
}

/** When the first of the silences began that run or have ended in an incident; infinite where there is none. */
function firstSilence(items: readonly FeedItem[]): number {
  let sinceMs = Number.POSITIVE_INFINITY;
  for (const { monitor } of items) {
    const { anchorMs, deadlineMs, openIncidents } = monitor.live;
    if (deadlineMs !== undefined || openIncidents > 0)
      sinceMs = Math.min(sinceMs, anchorMs ?? deadlineMs ?? sinceMs);
  }
  return sinceMs;
}

function explainItem(context: Context, { monitor, action }: FeedItem, outages: KnownOutages): string {
  const { live, updatedMs } = monitor;
  const timing = timingOf(context, monitor);
  const { serviceState, suspendedMs, restsSinceMs } = explainedService(timing, monitor);
  const state = {
    atMs: monitor.nowMs,
    timing,
    live,
    incidents: monitor.openIncidents,
    ...outages,
    // Of the changes since the clock started it has the newest one.
    changes: updatedMs > (live.anchorMs ?? 0) ? [updatedMs] : [],
    action,
    serviceState,
    suspendedMs,
    restsSinceMs,
  };
  return becauseOf(state, quickDeadlines(state));
}
