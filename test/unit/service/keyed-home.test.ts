// Where a call with an idempotency key works, whatever databases are away when it is made and repeated: it has one effect,
// and whoever repeats it is told of that effect, or to try again (docs/contract/calls.md, docs/contract/tenancy.md).
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { JURISDICTIONS } from '../../../src/domain/monitor.ts';
import { ProblemError } from '../../../src/domain/problem.ts';
import type { Asked, SharedHome } from '../../../src/service/calls/homes.ts';
import { type Aim, decide, type Known } from '../../../src/service/calls/keyed-home.ts';

const HOMES = JURISDICTIONS.slice(0, 3).map(
  (jurisdiction) => ({ jurisdictions: [jurisdiction] }) as unknown as SharedHome,
);
type Index = 0 | 1 | 2;
const INDEXES = [0, 1, 2] as const;

/**
 * What the databases have: the monitor, its generation, and under the key the answer, which has the generation that the call
 * changed, or that of another request.
 */
interface World {
  monitors: (number | undefined)[];
  keys: (number | 'of_another_request' | undefined)[];
  made: number;
  /** The generations that the call has changed. */
  effects: number[];
}

interface Call {
  do: 'call';
  away: readonly Index[];
  /** When the database goes away after the looks, if it does. */
  breaksOff?: 'before the work' | 'before the answer';
}

const at = fc.constantFrom<Index>(...INDEXES);
const change = fc.record({
  do: fc.constantFrom('make' as const, 'delete' as const, 'use the key' as const),
  at,
});
const called = fc.record({
  do: fc.constant('call' as const),
  away: fc.subarray([...INDEXES]),
  breaksOff: fc.constantFrom(undefined, undefined, 'before the work' as const, 'before the answer' as const),
});
const step = fc.oneof(change, called);

const look = async () => true;
const AIMS: Record<string, Aim> = {
  'a monitor by its id alone': { asked: HOMES, look, isInOne: false },
  'a monitor in its jurisdiction': { home: HOMES[1] as SharedHome },
};

/** What the caller is told: the generation that his call has changed, or a refusal. */
function call(world: World, aim: Aim, { away, breaksOff }: Call): number | ProblemError {
  const answers = HOMES.flatMap((home, index): [SharedHome, Asked<Known>][] => {
    // Nobody waits for one that is slow and cannot have the answer.
    if (away.includes(index as Index))
      return 'home' in aim && home !== aim.home ? [] : [[home, { fault: undefined }]];
    const kept = world.keys[index];
    const key = typeof kept === 'number' ? { replay: { status: kept, headers: {}, body: 0 } } : kept;
    return [[home, { found: { hasIt: 'look' in aim && world.monitors[index] !== undefined, key } }]];
  });
  try {
    const found = decide(aim, new Map(answers));
    if ('replay' in found) return found.replay.status;
    const index = HOMES.indexOf(found);
    const generation = world.monitors[index];
    const wentAway = new ProblemError('temporarily_unavailable', { detail: 'It went away.' });
    if (breaksOff === 'before the work') return wentAway;
    if (generation === undefined) return new ProblemError('not_found', { detail: 'It is not there.' });
    world.keys[index] = generation;
    world.effects.push(generation);
    return breaksOff ? wentAway : generation;
  } catch (error) {
    if (error instanceof ProblemError) return error;
    throw error;
  }
}

it.each(Object.entries(AIMS))('a call on %s has one effect however often it is repeated', (_name, aim) => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30, size: 'max' }), (steps) => {
      const world: World = { monitors: [], keys: [], made: 0, effects: [] };
      for (const one of steps) {
        if (one.do === 'use the key') world.keys[one.at] ??= 'of_another_request';
        else if (one.do === 'delete') world.monitors[one.at] = undefined;
        else if (one.do === 'make') {
          world.made += 1;
          world.monitors[one.at] ??= world.made;
        }
        if (one.do !== 'call') continue;
        const answer = call(world, aim, one);
        if (typeof answer === 'number') expect(world.effects).toEqual([answer]);
        else if (world.effects.length > 0) expect(answer).toMatchObject({ code: 'temporarily_unavailable' });
      }
      expect(world.effects.length).toBeLessThanOrEqual(1);
    }),
    { numRuns: 2_000 },
  );
});

it('while all databases are there nobody is told to try again', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }), (has) => {
      const answers = HOMES.map((home, index): [SharedHome, Asked<Known>] => [
        home,
        { found: { hasIt: has[index] === true, key: undefined } },
      ]);
      const count = has.filter(Boolean).length;
      const found = () => decide({ asked: HOMES, look, isInOne: false }, new Map(answers));
      if (count === 1) expect(found()).toBe(HOMES[has.indexOf(true)]);
      else expect(found).toThrow(expect.objectContaining({ code: count === 0 ? 'not_found' : 'conflict' }));
    }),
  );
});
