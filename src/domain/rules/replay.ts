// Replays successes by the evaluator of live beats: the incidents that would have opened, had the rules been these.
import { hasEnded, type Incident } from '../incident.ts';
import type { CompiledRules } from './compile.ts';
import { escalateByTime } from './escalate.ts';
import { judgeBeat } from './judge.ts';
import type { RuleObservation, RuleStates } from './state.ts';

export interface ReplayStart {
  states?: RuleStates;
  /** Those that have not ended. */
  incidents?: readonly Incident[];
}

export interface Replayed {
  /** In the order in which they opened, those of the start first; each as it is at the end. */
  incidents: Incident[];
  states: RuleStates;
  /** Observations that violate a rule. */
  flagged: number;
}

export interface Replay {
  /** The next success, in the order of sequences. */
  take(observation: RuleObservation): void;
  /** A success that the definitions refuse, in the same order: no rule gets graver by the time after it. */
  refuse(observation: Pick<RuleObservation, 'atMs'>): void;
  /** `untilMs`: time that passes after the last success. */
  end(untilMs?: number): Replayed;
}

/** `history`: successes, oldest first. `untilMs`: how long no beat came after the last. */
export function replayRules(
  rules: CompiledRules,
  history: Iterable<RuleObservation>,
  from: ReplayStart & { untilMs?: number } = {},
): Replayed {
  const replay = startReplay(rules, from);
  for (const observation of history) replay.take(observation);
  return replay.end(from.untilMs);
}

/** For histories that do not fit into memory. The incidents do. */
export function startReplay(
  rules: CompiledRules,
  { states: first = {}, incidents = [] }: ReplayStart = {},
): Replay {
  const all = new Map(incidents.map((incident) => [incident.incidentId, incident]));
  let open = [...incidents];
  let states = first;
  let escalatesMs: number | undefined;
  let flagged = 0;

  const keep = (transitions: readonly { incident: Incident }[]) => {
    if (transitions.length === 0) return;
    for (const { incident } of transitions) all.set(incident.incidentId, incident);
    const changed = new Set(transitions.map(({ incident }) => incident.incidentId));
    const rest = open.filter(({ incidentId }) => !changed.has(incidentId));
    const still = transitions.map(({ incident }) => incident).filter((incident) => !hasEnded(incident));
    open = [...rest, ...still];
  };
  /** As a sweeper that is never late: before the beat that comes after the moment. */
  const passTime = (untilMs: number) => {
    while (escalatesMs !== undefined && escalatesMs < untilMs) {
      const dueMs = escalatesMs;
      const passed = escalateByTime(rules, states, open, dueMs, { fromMs: dueMs });
      keep(passed.transitions);
      escalatesMs = passed.escalatesMs;
    }
  };
  return {
    take: (observation) => {
      passTime(observation.atMs);
      const judged = judgeBeat(rules, states, open, observation, { quiet: false, escalatesMs });
      states = judged.states;
      escalatesMs = judged.escalatesMs;
      if (judged.violations.length > 0) flagged += 1;
      keep(judged.transitions);
    },
    refuse: ({ atMs }) => {
      passTime(atMs);
      // As a refused beat does: the next one decides.
      escalatesMs = undefined;
    },
    end: (untilMs) => {
      if (untilMs !== undefined) passTime(untilMs + 1);
      return { incidents: [...all.values()], states, flagged };
    },
  };
}
