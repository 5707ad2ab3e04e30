// A replay of a history opens what living through it opened, for random rules and histories: states that are lost, beats that
// are refused and changes of the rules included.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { hasEnded, type Incident } from '../../../src/domain/incident.ts';
import { type CompiledRules, compileRules } from '../../../src/domain/rules/compile.ts';
import { startReplay } from '../../../src/domain/rules/replay.ts';
import { type RuleObservation, rebuildStates, staleMeasurements } from '../../../src/domain/rules/state.ts';
import { liveThrough } from './live-through.ts';
import { anyBeats, anyChanges, anyDefinitions, changed, type Step } from './lives.ts';
import { type Living, plain } from './living.ts';
import type { Definitions } from './reference-violations.ts';

/** What is remembered of `history`. */
function rebuild(rules: CompiledRules, history: readonly RuleObservation[]) {
  return rebuildStates(rules, {}, staleMeasurements(rules, {}), history);
}

function replay(
  rules: CompiledRules,
  came: Living['came'],
  { untilMs, ...from }: { untilMs: number } & Parameters<typeof startReplay>[1],
) {
  const started = startReplay(rules, from);
  for (const { observation, isTaken } of came) {
    if (isTaken) started.take(observation);
    else started.refuse(observation);
  }
  return started.end(untilMs);
}

it('opens by a replay what living through it opened', () => {
  let opened = 0;
  fc.assert(
    fc.property(anyDefinitions, anyBeats, (definitions, steps) => {
      const { living, endMs } = liveThrough(definitions, steps);
      const rules = compileRules(definitions);
      const replayed = replay(rules, living.came, { untilMs: endMs - 1 });
      opened += replayed.incidents.length;
      expect(replayed.incidents.map(plain)).toEqual(living.incidents);
      if (living.history.length === 0) return;
      // A state that is built at once is the one that was kept.
      expect(replayed.states).toEqual(rebuild(rules, living.history));
    }),
    { numRuns: 300 },
  );
  expect(opened).toBeGreaterThan(20);
});

/** Rules, and the beats that they judge: the steps from one change to the next. */
interface Piece {
  definitions: Definitions;
  beats: number;
}

function piecesOf(first: Definitions, steps: readonly Step[]): Piece[] {
  const pieces: Piece[] = [{ definitions: first, beats: 0 }];
  for (const step of steps) {
    const last = pieces.at(-1) as Piece;
    if (step.kind === 'beat') last.beats += 1;
    else if (step.kind === 'change' || step.kind === 'tweak')
      pieces.push({ definitions: changed(last.definitions, step), beats: 0 });
  }
  return pieces;
}

/** Rules change right before a beat. What the time alone does between the two is no part of a replay. */
const anyChangesBeforeBeats = anyChanges.map((steps) =>
  steps.map((step, index) => {
    const isFirst = step.kind === 'beat' && ['change', 'tweak'].includes(steps[index - 1]?.kind ?? '');
    return isFirst ? { ...step, afterSeconds: 0.001 } : step;
  }),
);

/** As a change of the rules leaves them. */
function standing(incidents: readonly Incident[], rules: CompiledRules): Incident[] {
  return incidents
    .filter((incident) => !hasEnded(incident))
    .map((incident) => {
      const judged = rules.measurements.get(incident.measurement ?? '');
      const stands = judged?.isActive && judged.checks.some(({ kind }) => kind === incident.rule);
      return stands ? incident : { ...incident, state: 'resolved' };
    });
}

it('opens by replays, one for the time of each set of rules, what living through their changes opened', () => {
  let [opened, changes] = [0, 0];
  fc.assert(
    fc.property(anyDefinitions, anyChangesBeforeBeats, (first, steps) => {
      const { living, endMs } = liveThrough(first, steps);
      const all = new Map<string, Incident>();
      let done = 0;
      for (const { definitions, beats } of piecesOf(first, steps)) {
        const rules = compileRules(definitions);
        const came = living.came.slice(done, done + beats);
        const before = living.came.slice(0, done).filter(({ isTaken }) => isTaken);
        const incidents = standing([...all.values()], rules);
        for (const incident of incidents) all.set(incident.incidentId, incident);
        const nextMs = living.came[done + beats]?.observation.atMs ?? endMs;
        const { incidents: replayed } = replay(rules, came, {
          states: rebuild(
            rules,
            before.map(({ observation }) => observation),
          ),
          incidents: incidents.filter((incident) => !hasEnded(incident)),
          untilMs: nextMs - 1,
        });
        for (const incident of replayed) all.set(incident.incidentId, incident);
        done += beats;
        changes += Number(beats > 0);
      }
      opened += all.size;
      expect([...all.values()].map(plain)).toEqual(living.incidents);
    }),
    { numRuns: 300 },
  );
  expect([opened > 20, changes > 20]).toEqual([true, true]);
});
