// What a change of a monitor's rules ends, in its transaction: an incident of a rule that is gone or inactive, which no beat
// could end any more, and what was remembered for it (docs/contract/rules.md).
import { countOpen } from '../../domain/beat.ts';
import { type Actor, type Incident, resolveIncident, type Transition } from '../../domain/incident.ts';
import { AFTER_A_BEAT, type LiveState, type MeasurementRule, suppression } from '../../domain/monitor.ts';
import { type CompiledRules, compileRules } from '../../domain/rules/compile.ts';
import { decodeStates, encodeStates } from '../../domain/rules/stored-states.ts';
import { findOpenIncidents } from '../../store/incidents/incidents.ts';
import type { MonitorRecord } from '../../store/monitors/monitor-record.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { recordTransitions } from '../incidents/incident-writer.ts';
import type { LockedMonitor } from './monitor-access.ts';
import { alertSubject } from './monitors.ts';

type Rules = Readonly<Record<string, MeasurementRule>>;

/**
 * Ends what the rules of `after` cannot end any more. Returns the record with the incidents that are left, and the live state
 * with their number and the next look at rules that time makes graver; the caller computes the wake and writes both.
 */
export async function endRemovedRules(
  tx: Queryable,
  { record, timing, nowMs }: LockedMonitor,
  after: Rules,
  actor: Actor,
): Promise<MonitorRecord> {
  const rules = compileRules(after);
  const transitions = await resolveUnjudged(tx, record, { rules, actor, nowMs });
  const live: LiveState = {
    ...record.live,
    openIncidents: countOpen(record.live.openIncidents, transitions),
    gapBroken: record.live.gapBroken || transitions.length > 0,
    escalatesMs: nextLook(rules, record.live, nowMs),
    // A rule that returns has missed beats: of its old definition nothing is kept.
    ruleStates: encodeStates(rules, decodeStates(rules, record.live.ruleStates)),
  };
  const suppressed = suppression(timing, nowMs);
  await recordTransitions(tx, [{ ...alertSubject(record, live), suppressed, transitions }], nowMs);
  const ended = new Set(transitions.map(({ incident }) => incident.incidentId));
  const openIncidents = record.openIncidents.filter(({ incidentId }) => !ended.has(incidentId));
  return { ...record, live, openIncidents };
}

/** A sweeper looks at what the new rules make of the rows of violations, from now on: nothing happens for what is past. */
function nextLook(
  { judged, byTime }: CompiledRules,
  { escalatesMs }: LiveState,
  nowMs: number,
): number | undefined {
  if (escalatesMs === AFTER_A_BEAT && judged.length > 0) return escalatesMs;
  return byTime.length === 0 ? undefined : Math.min(escalatesMs ?? nowMs, nowMs);
}

async function resolveUnjudged(
  tx: Queryable,
  record: MonitorRecord,
  { rules, actor, nowMs }: { rules: CompiledRules; actor: Actor; nowMs: number },
): Promise<Transition[]> {
  if (!record.openIncidents.some(({ kind }) => kind === 'rule_violation')) return [];
  const incidents = (await findOpenIncidents(tx, [record])).get(record.monitorKey) ?? [];
  return incidents.flatMap((incident) => {
    const note = whyUnjudged(rules, incident);
    return (note && resolveIncident(incident, { actor, note }, nowMs)) || [];
  });
}

/** Undefined where a beat can still end the incident. */
function whyUnjudged({ measurements }: CompiledRules, { kind, measurement = '', rule }: Incident) {
  if (kind !== 'rule_violation') return undefined;
  const judged = measurements.get(measurement);
  if (!judged?.checks.some((check) => check.kind === rule)) return 'The rule was removed.';
  return judged.isActive ? undefined : 'The rule was made inactive.';
}
