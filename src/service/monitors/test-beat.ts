// What a beat would do now (docs/contract/beats.md), decided as for the publish address. It reads in a transaction that
// may write nothing.
import { decideBeat } from '../../domain/beat-decision.ts';
import { jsonBeat } from '../../domain/beat-input.ts';
import type { Transition } from '../../domain/incident.ts';
import type { MonitorRules } from '../../domain/judged-beat.ts';
import type { ProblemError } from '../../domain/problem.ts';
import { compileRules } from '../../domain/rules/compile.ts';
import type { Violation } from '../../domain/rules/state.ts';
import { findOpenIncidents } from '../../store/incidents/incidents.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { MonitorName } from '../../store/monitors/monitors.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inSnapshot } from '../../store/postgres/transaction.ts';
import type { ServiceContext } from '../calls/context.ts';
import { findMonitor, timingOf } from './monitor-access.ts';
import { loadRuleStates } from './rule-states.ts';

export interface BeatTest {
  /** Why it would be refused. */
  problem?: ProblemError;
  transitions: readonly Transition[];
  violations: readonly Violation[];
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
    const { planId, serviceState, returnedMs, live, monitorKey, nowMs } = record;
    const open = await findOpenIncidents(tx, live.openIncidents > 0 ? [record] : []);
    const incidents = open.get(monitorKey) ?? [];
    const plan = context.findPlan(planId);
    const rules = await rulesOf(tx, record);
    const timing = timingOf(context, record);
    const monitor = { timing, plan, serviceState, returnedMs, live, incidents, rules };
    const decision = decideBeat(monitor, jsonBeat({}, undefined, body), nowMs);
    if ('problem' in decision) return { problem: decision.problem, transitions: [], violations: [] };
    return { transitions: decision.result.transitions, violations: decision.violations };
  });
}

/** Undefined where the monitor has no rules. */
async function rulesOf(tx: Queryable, record: MonitorRecord): Promise<MonitorRules | undefined> {
  const { projectId, monitorKey, live, nowMs, configuration } = record;
  const compiled = compileRules(configuration.measurements);
  if (compiled.measurements.size === 0) return undefined;
  const { lastSequence, ruleStates } = live;
  const ruled = { projectId, monitorKey, rules: compiled, lastSequence, ruleStates };
  const { states, rebuilt } = await loadRuleStates(tx, [ruled], { nowMs });
  return { compiled, states: states.get(monitorKey) ?? {}, built: rebuilt.get(monitorKey) };
}
