// The health of a monitor in one word (docs/contract/monitors.md), from configuration, live state and open incidents.
// Pure.
import { lateFrom } from './deadline.ts';
import type { Incident } from './incident.ts';
import { makesDown } from './incident.ts';
import { type Maintained, windowAt } from './maintenance.ts';
import type { Health, LiveState, Timing } from './monitor.ts';

export function healthOf(
  timing: Pick<Timing, 'lifecycle' | 'graceMs'> & Maintained & { schedule?: object },
  live: Pick<LiveState, 'deadlineMs' | 'firstBeatMs' | 'missedCount'>,
  incidents: readonly Pick<Incident, 'kind' | 'severity' | 'state'>[],
  nowMs: number,
): Health {
  if (timing.lifecycle !== 'active') return timing.lifecycle;
  if (windowAt(timing, nowMs)) return 'maintenance';
  const grave = incidents.filter(makesDown);
  if (grave.some((incident) => incident.state === 'open')) return 'down';
  if (grave.some((incident) => incident.state === 'recovering')) return 'recovering';
  const { deadlineMs } = live;
  const isLate = deadlineMs !== undefined && (live.missedCount > 0 || nowMs >= lateFrom(timing, deadlineMs));
  if (isLate) return 'late';
  return live.firstBeatMs === undefined ? 'waiting' : 'up';
}
