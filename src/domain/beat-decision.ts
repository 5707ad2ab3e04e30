// Whether a beat is taken, and what it does (docs/contract/beats.md): (monitor, its state, beat, now) -> the result, or the
// problem for which it is refused. Pure: one decision for the publish address and for test beats.
import { applyBeat, applyRefusedBeat, applySuspendedBeat, type BeatResult, rearm } from './beat.ts';
import { type BeatInput, movesDeadline, type RefusedBeat } from './beat-input.ts';
import { holdAlerts, holdOf } from './held-alerts.ts';
import type { Incident } from './incident.ts';
import { judgeSuccess, type MonitorRules, ruleProblem } from './judged-beat.ts';
import type { LiveState, Timing } from './monitor.ts';
import { limitOf, type Plan, planLimitReached, serviceProblem, takeToken } from './plan.ts';
import { ProblemError, type ServiceState } from './problem.ts';
import type { RuleStates, Violation } from './rules/state.ts';
import { restUntilReturn } from './wake.ts';

export interface BeatenMonitor {
  timing: Timing;
  plan: Plan;
  serviceState: ServiceState;
  /** When the organization was last served again after a suspension. Read together with `serviceState`. */
  returnedMs: number | undefined;
  live: LiveState;
  /** Those that have not ended. */
  incidents: readonly Incident[];
  /** Absent where the monitor has none. */
  rules?: MonitorRules;
}

export interface TakenBeat {
  beat: BeatInput;
  result: BeatResult;
  violations: Violation[];
  /** What the rules remember now; the same object where that has not changed. Absent where the beat was not judged. */
  states?: RuleStates;
}

/** A beat that is not recorded. `live` is another object than before where the beat changes something all the same. */
export interface BeatRefusal {
  problem: ProblemError;
  /** Absent where the monitor takes no beats at all: nobody asks whether the deadline was moved. */
  live?: LiveState;
}

export function decideBeat(
  monitor: BeatenMonitor,
  beat: BeatInput | RefusedBeat,
  nowMs: number,
): TakenBeat | BeatRefusal {
  const { timing, live, incidents, returnedMs } = monitor;
  if (timing.lifecycle === 'archived') return { problem: archived() };
  if ('problem' in beat) return refuse(monitor, beat, nowMs);
  const suspended = serviceProblem(monitor.serviceState);
  if (suspended) return { problem: suspended, live: applySuspendedBeat(timing, live, beat, nowMs) };
  const { plan, rules } = monitor;
  const { allowed, tokens, tokensMs } = takeToken(live, plan.beatsPerMinute, nowMs);
  const problem =
    tooManyMeasurements(plan, beat) ?? ruleProblem(rules, beat) ?? (allowed ? undefined : tooFrequent(plan));
  if (problem) return refuse(monitor, { kind: beat.kind, problem }, nowMs);
  // No sweeper may have looked since the suspension: what passed during it rests, and its gap teaches no cadence.
  const rested = restUntilReturn(timing, { ...live, tokens, tokensMs }, { nowMs, returnedMs });
  const result = applyBeat(timing, rested, incidents, beat, nowMs);
  const taken: TakenBeat =
    !rules || beat.kind !== 'success'
      ? { beat, result, violations: [] }
      : { beat, ...judgeSuccess({ timing, live: rested, incidents, rules }, beat, result, nowMs) };
  return { ...taken, result: withHeldAlerts(timing, taken.result, nowMs) };
}

/** Where the monitor may have causes elsewhere, what opens is told of later. */
function withHeldAlerts(timing: Timing, result: BeatResult, nowMs: number): BeatResult {
  if (holdOf(timing) === undefined || result.transitions.length === 0) return result;
  const { live, transitions } = holdAlerts(timing, result.live, result.transitions, nowMs);
  return { ...result, live: rearm(timing, live, nowMs), transitions };
}

/**
 * A refused success or fail moves a running deadline: a wrong number must not look like a dead job. A start, a log or a cancel
 * moves none when it is accepted, and none when it is refused.
 */
function refuse({ timing, live }: BeatenMonitor, { kind, problem }: RefusedBeat, nowMs: number): BeatRefusal {
  return { problem, live: movesDeadline(kind) ? applyRefusedBeat(timing, live, nowMs) : live };
}

function archived(): ProblemError {
  return new ProblemError('monitor_archived', {
    detail: 'The monitor is archived: restore it, or stop the job that beats it.',
  });
}

function tooManyMeasurements(plan: Plan, { measurements = {} }: BeatInput): ProblemError | undefined {
  const attempted = Object.keys(measurements).length;
  const limit = plan.measurementsPerObservation;
  if (attempted <= limit) return undefined;
  return planLimitReached(
    plan,
    { dimension: 'measurements_per_observation', limit, attempted },
    'measurements',
  );
}

function tooFrequent(plan: Plan): ProblemError {
  return new ProblemError('rate_limited', {
    detail: `The plan ${plan.name} records ${plan.beatsPerMinute} beats a minute per monitor.`,
    retryAfterSeconds: Math.max(1, Math.ceil(60 / plan.beatsPerMinute)),
    limit: limitOf(plan, { dimension: 'beat_cadence', limit: plan.beatsPerMinute }),
  });
}
