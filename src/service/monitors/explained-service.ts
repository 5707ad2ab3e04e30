// What an explanation has of the organization of a monitor (docs/contract/organization.md, "Service states").
import type { State } from '../../domain/explain/situation.ts';
import type { Timing } from '../../domain/monitor.ts';
import { isServed } from '../../domain/plan.ts';
import { restingSince } from '../../domain/wake.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';

export type ExplainedService = Pick<State, 'serviceState' | 'suspendedMs' | 'restsSinceMs'>;

/** As it is now. */
export function explainedService(
  timing: Timing,
  {
    serviceState,
    suspendedMs,
    returnedMs,
    live,
    nowMs,
  }: Pick<MonitorRecord, 'serviceState' | 'suspendedMs' | 'returnedMs' | 'live' | 'nowMs'>,
): ExplainedService {
  const moment = { nowMs, returnedMs, isSuspended: !isServed(serviceState) };
  return { serviceState, suspendedMs, restsSinceMs: restingSince(timing, live, moment) };
}
