// A replay of a draft opens what living through the same beats has opened (docs/contract/rules.md): by the rule that a monitor
// has what it has opened itself, and by another rule what a second monitor has, which had that rule all the time. Transactions
// die, answers are lost, and states are lost meanwhile.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DraftReplay } from '../../src/service/monitors/replay-draft.ts';
import { anyBeats, anyDefinitions, type BeatStep } from '../unit/rules/lives.ts';
import { plain } from '../unit/rules/living.ts';
import { type PlainIncident, sorted } from '../unit/rules/reference.ts';
import { ownOf } from '../unit/rules/reference-violations.ts';
import {
  type Answer,
  anyCrashes,
  type Crash,
  crashAt,
  openRuleWorld,
  RuleLife,
  type RuleWorld,
  withoutId,
} from './rule-life.ts';

let world: RuleWorld;
beforeAll(async () => {
  world = await openRuleWorld();
});
afterAll(() => world?.close());

/** What has become of a rule, by living or by a replay. */
interface Outcome {
  incidents: PlainIncident[];
  flagged: number;
  refused: number;
}

const nameOf = ({ measurement, rule, openSequence }: PlainIncident) =>
  `${measurement} ${rule} ${openSequence}`;

async function livedBy(life: RuleLife, answers: readonly Answer[], key: string): Promise<Outcome> {
  const isOfKey = ({ measurement }: { measurement: string }) => measurement === key;
  const taken = answers.filter((answer) => answer !== 'refused');
  return {
    incidents: sorted((await life.incidents()).map(withoutId).filter(isOfKey)),
    flagged: taken.filter((violations) => violations.some(isOfKey)).length,
    refused: answers.length - taken.length,
  };
}

/** With the sequences of the first monitor, of which all beats are that the second one was sent. */
function renumbered({ incidents, ...rest }: Outcome, answers: readonly Answer[]): Outcome {
  const sequences = answers.flatMap((answer, index) => (answer === 'refused' ? [] : [index + 1]));
  const numbered = incidents.map((incident) => ({
    ...incident,
    openSequence: sequences[incident.openSequence - 1] as number,
    lastSequence: sequences[incident.lastSequence - 1] as number,
  }));
  return { incidents: numbered, ...rest };
}

function replayed({ incidents, flaggedCount, refusedCount }: DraftReplay['current']): Outcome {
  return { incidents: sorted(incidents.map(plain)), flagged: flaggedCount, refused: refusedCount };
}

function expectDifference({ current, proposed, difference }: DraftReplay): void {
  const namesOf = ({ incidents }: Pick<DraftReplay['current'], 'incidents'>) =>
    incidents.map(plain).map(nameOf);
  const [before, after] = [namesOf(current), namesOf(proposed)];
  expect(namesOf({ incidents: difference.added })).toEqual(after.filter((name) => !before.includes(name)));
  expect(namesOf({ incidents: difference.removed })).toEqual(before.filter((name) => !after.includes(name)));
  expect(difference.unchanged).toBe(after.filter((name) => before.includes(name)).length);
}

/** The beats that the first monitor takes come to the second one too. */
async function beatBoth(
  [first, second]: readonly [RuleLife, RuleLife],
  { measurements, afterSeconds, isLost }: BeatStep,
  crash: Crash,
): Promise<[Answer, Answer?]> {
  await first.pass(afterSeconds * 1000, crash);
  if (isLost) await first.loseStates();
  const answer = await first.beat(measurements, crash);
  if (answer !== 'refused') {
    // Without a beat after it the time alone does nothing any more.
    if (isLost) await second.loseStates();
    return [answer, await second.beat(measurements, crash)];
  }
  await first.pass(1, crash);
  return [answer];
}

it('a replay of a draft opens what monitors with its rule have opened by living through the same beats, whatever died in between', {
  timeout: 600_000,
}, async () => {
  let [opened, deaths] = [0, 0];
  const anyKey = fc.constantFrom('rows', 'files', 'constructor');
  await fc.assert(
    fc.asyncProperty(
      anyDefinitions,
      anyDefinitions,
      anyKey,
      anyBeats,
      anyCrashes,
      async (present, others, key, beats, crashes) => {
        await world.forget();
        const definition = ownOf(others, key) ?? {};
        const proposal = { measurementKey: key, definition };
        const lives = [
          await RuleLife.begin(world, present),
          await RuleLife.begin(world, { [key]: definition }),
        ] as const;
        const [first, second] = lives;
        const sinceMs = first.nowMs;
        const answers: { first: Answer[]; second: Answer[] } = { first: [], second: [] };
        for (const [index, step] of beats.entries()) {
          const [one, other] = await beatBoth(lives, step as BeatStep, crashAt(crashes, index));
          answers.first.push(one);
          if (other) answers.second.push(other);
        }
        // So that nothing is due at this very moment.
        await first.pass(7);
        const proposed = renumbered(await livedBy(second, answers.second, key), answers.second);
        const current = await livedBy(first, answers.first, key);
        for (const replay of await first.replay(proposal, sinceMs)) {
          expect(replayed(replay.proposed)).toEqual(proposed);
          // What the monitor has refused is no observation.
          if (current.refused === 0) expect(replayed(replay.current)).toEqual(current);
          expectDifference(replay);
        }
        opened += proposed.incidents.length;
        deaths += first.deaths + second.deaths;
      },
    ),
    { numRuns: 20 },
  );
  expect([opened > 0, deaths > 0]).toEqual([true, true]);
});
