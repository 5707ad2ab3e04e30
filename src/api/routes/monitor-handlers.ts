// All handlers of monitors and their status feed, with the two watches of each database
// that waiting calls share in this process.
import type { ServiceContext } from '../../service/calls/context.ts';
import { createFirstBeatWatch } from '../../service/monitors/first-beat.ts';
import { createFeedWatch } from '../../service/monitors/status-feed.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { bindingHandlers } from './bindings.ts';
import { draftHandlers } from './drafts.ts';
import { explainHandlers } from './explain.ts';
import { firstBeatHandlers } from './first-beat.ts';
import { monitorHistoryHandlers } from './monitor-history.ts';
import { monitorLifecycleHandlers } from './monitor-lifecycle.ts';
import { monitorOriginHandlers } from './monitor-origins.ts';
import { monitorHandlers } from './monitors.ts';
import { operatorHandlers } from './operators.ts';
import { statusFeedHandlers } from './status-feed.ts';
import { testBeatHandlers } from './test-beat.ts';

export function allMonitorHandlers({ databases }: Pick<ServiceContext, 'databases'>) {
  return {
    ...monitorHandlers,
    ...monitorLifecycleHandlers,
    ...bindingHandlers,
    ...monitorOriginHandlers,
    ...operatorHandlers,
    ...draftHandlers,
    ...monitorHistoryHandlers,
    ...firstBeatHandlers(forEach(databases, createFirstBeatWatch)),
    ...testBeatHandlers,
    ...explainHandlers,
    ...statusFeedHandlers(forEach(databases, createFeedWatch)),
  };
}

/** One for each database, by its pool. */
function forEach<Watch>(
  { homes, default: main }: Pick<ServiceContext['databases'], 'homes' | 'default'>,
  create: (pool: Pool) => Watch,
): (pool: Pool) => Watch {
  const first = create(main);
  const watches = new Map(homes.map(({ pool }) => [pool, pool === main ? first : create(pool)]));
  return (pool) => watches.get(pool) ?? first;
}
