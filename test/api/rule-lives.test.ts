// A monitor with rules, through the parts of the product, lives as the reference, which is written from the document and keeps
// no state (docs/contract/rules.md): random rules and lives, with transactions that die, answers that are lost, and states that
// are lost in between.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { RuleKind } from '../../src/domain/rules/rule-kinds.ts';
import { anyDefinitions, anyLife, changed, KNOWN_LIVES, type Step } from '../unit/rules/lives.ts';
import { type PlainIncident, Reference, sorted } from '../unit/rules/reference.ts';
import { type Definitions, kindsOf } from '../unit/rules/reference-violations.ts';
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

const isBegun = ({ state }: PlainIncident) => state === 'open' || state === 'recovering';

/** Both, step by step. */
class Twins {
  readonly life: RuleLife;
  readonly #reference = new Reference();
  #definitions: Definitions;
  #sequence = 0;
  #isQuiet = false;
  /** What `explain` said of the rules, and when. */
  readonly #told: { atMs: number; rules: object[] }[] = [];

  private constructor(life: RuleLife, definitions: Definitions) {
    this.life = life;
    this.#definitions = definitions;
    this.#reference.change(definitions, life.nowMs);
  }

  static async begin(definitions: Definitions): Promise<Twins> {
    await world.forget();
    const life = await RuleLife.begin(world, definitions);
    return new Twins(life, await life.change(definitions));
  }

  async take(step: Step, crash: Crash): Promise<void> {
    const { life } = this;
    await this.#pass(step.kind === 'beat' ? step.afterSeconds * 1000 : 1, crash);
    if (step.kind === 'beat') await this.#beat(step, crash);
    else {
      if (step.kind === 'quiet') {
        await life.toggleQuiet();
        this.#isQuiet = !this.#isQuiet;
      } else if (step.kind === 'resolve') await this.#resolve(step.place);
      // As in unit/rules/live-through.ts.
      else if (!this.#isQuiet || !(await this.#isPending())) {
        this.#definitions = await life.change(changed(this.#definitions, step));
        this.#reference.change(this.#definitions, life.nowMs);
      }
      await this.#pass(1, crash);
      await this.#tell();
    }
    expect(await this.#incidents()).toEqual(sorted(this.#reference.incidents));
  }

  /** What was told of each moment is told of it now. */
  async lookBack(): Promise<void> {
    await this.#pass(1, { dies: false });
    for (const { atMs, rules } of this.#told) {
      const explained = await this.life.history.explain(atMs);
      expect(explained.rules).toEqual(rules);
    }
  }

  async #beat(step: Extract<Step, { kind: 'beat' }>, crash: Crash): Promise<void> {
    const { life } = this;
    const { measurements } = step;
    // In a quiet time nobody can tell a lost state from one whose definition has changed.
    if (step.isLost && !this.#isQuiet) await life.loseStates();
    const foreseen = await life.foresee(measurements);
    const before = (await life.incidents()).map(wordsOf);
    const answer = await life.beat(measurements, crash);
    const observation = { sequence: this.#sequence + 1, atMs: life.nowMs, measurements };
    expectSame(answer, this.#reference.beat(observation, this.#isQuiet));
    expect(foreseen.answer).toEqual(answer);
    const after = (await life.incidents()).map(wordsOf);
    const news = after.filter((words) => !before.includes(words));
    expect(foreseen.changed).toEqual(expect.arrayContaining(news));
    expect(after).toEqual(expect.arrayContaining(foreseen.changed));
    if (answer === 'refused') await this.#pass(1, crash);
    else this.#sequence += 1;
  }

  async #resolve(place: number): Promise<void> {
    const open = (await this.life.incidents()).filter(isBegun);
    const found = sorted(open)[place % open.length] as (typeof open)[number] | undefined;
    if (!found || this.#reference.comesByTime(found.measurement, found.rule as RuleKind, this.life.nowMs))
      return;
    await this.life.history.resolve(found.incidentId);
    this.#reference.resolve(found.measurement, found.rule);
  }

  /** Something was due in a quiet time that has not ended. */
  async #isPending(): Promise<boolean> {
    const { live } = await this.life.history.read();
    return live.escalatesMs !== undefined && live.escalatesMs < this.life.nowMs;
  }

  async #tell(): Promise<void> {
    const { rules, atMs } = await this.life.history.explain();
    const expected = Object.entries(this.#definitions).flatMap(([measurement, rule]) =>
      kindsOf(rule).map((kind) => ({
        measurement,
        rule: kind,
        violationsInRow: this.#reference.inRow(measurement, kind),
      })),
    );
    expect(rules).toHaveLength(expected.length);
    expect(rules).toEqual(expect.arrayContaining(expected.map((one) => expect.objectContaining(one))));
    this.#told.push({ atMs, rules });
  }

  async #pass(ms: number, crash: Pick<Crash, 'dies'>): Promise<void> {
    const fromMs = this.life.nowMs;
    await this.life.pass(ms, crash);
    if (!this.#isQuiet) this.#reference.pass(fromMs, fromMs + ms);
  }

  async #incidents(): Promise<PlainIncident[]> {
    return sorted((await this.life.incidents()).map(withoutId));
  }
}

function wordsOf({ measurement, rule, state, severity, violationCount }: PlainIncident): string {
  return [measurement, rule, state, severity, violationCount].join(' ');
}

/** But for the rounding of percentages. */
function expectSame(found: Answer, expected: Answer): void {
  if (found === 'refused' || expected === 'refused') {
    expect(found).toBe(expected);
    return;
  }
  const rest = (violations: typeof found) => violations.map(({ value: _, ...others }) => others);
  expect(rest(found)).toEqual(rest(expected));
  for (const [index, { value }] of found.entries())
    expect(value / (expected[index]?.value || 1)).toBeCloseTo(expected[index]?.value ? 1 : 0, 9);
}

const ONE_CRASH: Crash = { dies: true, isRepeated: true };

it('a monitor with rules lives as the document says, whatever dies in between, and a test beat says before what a beat does', {
  timeout: 600_000,
}, async () => {
  let [opened, deaths] = [0, 0];
  await fc.assert(
    fc.asyncProperty(anyDefinitions, anyLife, anyCrashes, async (definitions, steps, crashes) => {
      const twins = await Twins.begin(definitions);
      for (const [index, step] of steps.entries()) await twins.take(step, crashAt(crashes, index));
      await twins.lookBack();
      opened += (await twins.life.incidents()).length;
      deaths += twins.life.deaths;
    }),
    { numRuns: 30, examples: KNOWN_LIVES.map((life) => [...life, [ONE_CRASH]]) },
  );
  expect([opened > 0, deaths > 0]).toEqual([true, true]);
});
