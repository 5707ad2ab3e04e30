// What a beat would do now (docs/contract/beats.md), decided as for the publish address. It reads in a transaction that
// may write nothing.
import { decideBeat } from '../../domain/beat-decision.ts';
import { jsonBeat } from '../../domain/beat-input.ts';
import type { Transition } from '../../domain/incident.ts';
import type { ProblemError } from '../../domain/problem.ts';
import { findOpenIncidents } from '../../store/incidents/incidents.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { inSnapshot } from '../../store/postgres/transaction.ts';
import type { ServiceContext } from '../calls/context.ts';
import { findMonitor, timingOf } from './monitor-access.ts';

export interface BeatTest {
  /** Why it would be refused. */
  problem?: ProblemError;
  transitions: readonly Transition[];
}

/** `body`: the JSON of the beat, empty for a plain success. Throws `not_found` and `conflict`. */
export async function testBeat(
  db: Database,
  context: Pick<ServiceContext, 'minimumIntervalSeconds' | 'findPlan'>,
  name: MonitorName,
  body: string,
): Promise<BeatTest> {
  return await inSnapshot(db, async (tx) => {
    const record = await findMonitor(tx, name);
    const { planId, serviceState, live, monitorKey, nowMs } = record;
    const open = await findOpenIncidents(tx, live.openIncidents > 0 ? [record] : []);
    const incidents = open.get(monitorKey) ?? [];
    const plan = context.findPlan(planId);
    const monitor = { timing: timingOf(context, record), plan, serviceState, live, incidents };
    const decision = decideBeat(monitor, jsonBeat({}, undefined, body), nowMs);
    if ('problem' in decision) return { problem: decision.problem, transitions: [] };
    return { transitions: decision.result.transitions };
  });
}
