// The bounds of calls that run at once, their shares by project and principal, and the end of the held ones.
import { describe, expect, it } from 'vitest';
import { type CallHolder, OpenCalls } from '../../../src/api/http/open-calls.ts';
import type { OperationSpec } from '../../../src/contract/operations/operation.ts';
import { contractOperations } from '../../../src/contract/operations/operations.ts';
import { ProblemError } from '../../../src/domain/problem.ts';

const { listProjects, getFirstBeat, getStatusFeed } = contractOperations();

const ADA = { project: 'one', principal: 'ada' };
const BOB = { project: 'one', principal: 'bob' };
const EVE = { project: 'two', principal: 'eve' };

/** Begins calls until one is refused. */
function fill(calls: OpenCalls, holder: CallHolder, spec: OperationSpec = getFirstBeat) {
  const begun: AbortController[] = [];
  for (;;) {
    try {
      begun.push(calls.begin(spec, holder));
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      return { begun, refusal: error };
    }
  }
}

describe('open calls', () => {
  it('one principal gets no more than a third of the calls, and leaves room for its project and for others', () => {
    const calls = new OpenCalls({ working: 90, held: 90 });
    for (const spec of [listProjects, getFirstBeat]) {
      const { begun, refusal } = fill(calls, ADA, spec);
      expect(begun).toHaveLength(30);
      expect(refusal).toMatchObject({
        code: 'rate_limited',
        options: { retryAfterSeconds: expect.any(Number) },
        message: expect.stringMatching(/^This credential or session has 30 calls open .* end some of them/),
      });
      expect(fill(calls, BOB, spec).begun.length).toBeGreaterThan(5);
      expect(fill(calls, EVE, spec).begun.length).toBeGreaterThan(5);
    }
  });

  it('a project of many principals gets no more than half of the calls, and leaves room for others', () => {
    const calls = new OpenCalls({ working: 90, held: 90 });
    let count = 0;
    for (let index = 0; index < 90; index += 1) {
      const { begun } = fill(calls, { project: 'one', principal: `reader ${index}` });
      count += begun.length;
    }
    expect(count).toBe(45);
    expect(fill(calls, { project: 'one', principal: 'another' }).refusal.message).toMatch(
      /^The project has 45 calls open/,
    );
    expect(fill(calls, EVE).begun).toHaveLength(15);
  });

  it('one principal gets no more than a third of the calls in however many projects it calls, and leaves room for others', () => {
    const calls = new OpenCalls({ working: 90, held: 90 });
    for (const spec of [listProjects, getFirstBeat]) {
      let count = 0;
      for (let index = 0; index < 90; index += 1) {
        const { begun, refusal } = fill(calls, { project: `project ${index}`, principal: 'ada' }, spec);
        count += begun.length;
        if (begun.length === 0) expect(refusal.code).toBe('rate_limited');
      }
      expect(count).toBe(30);
      expect(fill(calls, { project: 'project 1', principal: 'bob' }, spec).begun.length).toBeGreaterThan(10);
      expect(fill(calls, EVE, spec).begun.length).toBeGreaterThan(10);
    }
  });

  it('calls of a principal that end make room for it in other projects', () => {
    const calls = new OpenCalls({ working: 9, held: 9 });
    const { begun } = fill(calls, ADA);
    const elsewhere = { ...ADA, project: 'two' };
    expect(fill(calls, elsewhere).begun).toHaveLength(0);
    for (const call of begun) calls.end(call);
    expect(fill(calls, elsewhere).begun).toHaveLength(3);
  });

  it('the waits for a first beat and the status feeds of one principal count together, apart from its other calls', () => {
    const calls = new OpenCalls({ working: 9, held: 9 });
    expect(fill(calls, ADA, getFirstBeat).begun).toHaveLength(3);
    expect(fill(calls, ADA, getStatusFeed).begun).toHaveLength(0);
    expect(fill(calls, ADA, listProjects).begun).toHaveLength(3);
  });

  it('a call that ends makes room for another one, once', () => {
    const calls = new OpenCalls({ working: 9, held: 9 });
    const { begun } = fill(calls, ADA);
    const [first] = begun;
    if (first) for (let time = 0; time < 3; time += 1) calls.end(first);
    expect(fill(calls, ADA).begun).toHaveLength(1);
    expect(calls.size).toBe(3);
  });

  it('nobody begins a call when all places are taken', () => {
    const calls = new OpenCalls({ working: 2, held: 1 });
    for (const holder of [ADA, EVE]) calls.begin(listProjects, holder);
    calls.begin(getFirstBeat, ADA);
    const other = { project: 'three', principal: 'joe' };
    for (const spec of [listProjects, getFirstBeat]) {
      expect(fill(calls, other, spec).refusal.code).toBe('temporarily_unavailable');
    }
    expect(calls.size).toBe(3);
  });

  it('a draining service ends held calls and lets working calls finish', () => {
    const calls = new OpenCalls();
    const [works, held] = [calls.begin(listProjects, ADA), calls.begin(getFirstBeat, ADA)];
    calls.drain();
    expect([works.signal.aborted, held.signal.aborted]).toEqual([false, true]);
    expect(calls.begin(getFirstBeat, ADA).signal.aborted).toBe(true);
    expect(calls.begin(listProjects, ADA).signal.aborted).toBe(false);
  });
});
