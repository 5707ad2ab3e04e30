// The evaluator against the reference, for random rules and lives.
import fc from 'fast-check';
import { it } from 'vitest';
import { liveThrough } from './live-through.ts';
import { anyDefinitions, anyLife, KNOWN_LIVES } from './lives.ts';

it('lives as the reference, which keeps no state: changed rules, pauses, refused beats and lost states included', () => {
  fc.assert(
    fc.property(anyDefinitions, anyLife, (definitions, steps) => {
      liveThrough(definitions, steps);
    }),
    { numRuns: 300, examples: KNOWN_LIVES },
  );
});
