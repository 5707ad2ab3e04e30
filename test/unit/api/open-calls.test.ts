// The bounds of calls that run at once, and the end of the held ones.
import { describe, expect, it } from 'vitest';
import { OpenCalls } from '../../../src/api/http/open-calls.ts';
import { contractOperations } from '../../../src/contract/operations/operations.ts';
import { ProblemError } from '../../../src/domain/problem.ts';

const { listProjects, getFirstBeat } = contractOperations();

describe('open calls', () => {
  it('held calls and working calls have separate limits', () => {
    const calls = new OpenCalls({ working: 2, held: 1 });
    const first = calls.begin(listProjects);
    calls.begin(listProjects);
    calls.begin(getFirstBeat);
    for (const spec of [listProjects, getFirstBeat]) {
      expect(() => calls.begin(spec)).toThrow(ProblemError);
    }
    expect(calls.size).toBe(3);
    calls.end(first);
    calls.begin(listProjects);
  });

  it('a draining service ends held calls and lets working calls finish', () => {
    const calls = new OpenCalls();
    const [works, held] = [calls.begin(listProjects), calls.begin(getFirstBeat)];
    calls.drain();
    expect([works.signal.aborted, held.signal.aborted]).toEqual([false, true]);
    expect(calls.begin(getFirstBeat).signal.aborted).toBe(true);
    expect(calls.begin(listProjects).signal.aborted).toBe(false);
  });
});
