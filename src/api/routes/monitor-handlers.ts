// All handlers of monitors and their status feed, with the two watches that waiting calls share in this process.
import type { ServiceContext } from '../../service/calls/context.ts';
import { createFirstBeatWatch } from '../../service/monitors/first-beat.ts';
import { createFeedWatch } from '../../service/monitors/status-feed.ts';
import { bindingHandlers } from './bindings.ts';
import { explainHandlers } from './explain.ts';
import { firstBeatHandlers } from './first-beat.ts';
import { monitorHistoryHandlers } from './monitor-history.ts';
import { monitorLifecycleHandlers } from './monitor-lifecycle.ts';
import { monitorOriginHandlers } from './monitor-origins.ts';
import { monitorHandlers } from './monitors.ts';
import { statusFeedHandlers } from './status-feed.ts';
import { testBeatHandlers } from './test-beat.ts';

export function allMonitorHandlers({ databases }: Pick<ServiceContext, 'databases'>) {
  return {
    ...monitorHandlers,
    ...monitorLifecycleHandlers,
    ...bindingHandlers,
    ...monitorOriginHandlers,
    ...monitorHistoryHandlers,
    ...firstBeatHandlers(createFirstBeatWatch(databases.default)),
    ...testBeatHandlers,
    ...explainHandlers,
    ...statusFeedHandlers(createFeedWatch(databases.default)),
  };
}
