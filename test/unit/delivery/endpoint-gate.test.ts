import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EndpointGate, type Passage } from '../../../src/delivery/endpoint-gate.ts';

function enter(gate: EndpointGate, endpointId: string, nowMs = 0): Passage {
  const answer = gate.enter(endpointId, nowMs);
  if (answer.state !== 'entered') throw new Error(`not entered: ${answer.state}`);
  return answer;
}

/** As many passages as the gate gives at once. */
function fill(gate: EndpointGate, endpointId: string, nowMs = 0): Passage[] {
  const passages: Passage[] = [];
  for (let answer = gate.enter(endpointId, nowMs); answer.state === 'entered'; ) {
    passages.push(answer);
    answer = gate.enter(endpointId, nowMs);
  }
  return passages;
}

describe('the gate of endpoints', () => {
  it('the gate lets one attempt through at first, and twice as many after each success, up to the bound', () => {
    const gate = new EndpointGate({ maxPerEndpoint: 8 });
    for (const expected of [1, 2, 4, 8, 8]) {
      const passages = fill(gate, 'cb_1');
      expect(passages).toHaveLength(expected);
      passages[0]?.leave({ failed: false }, 0);
      for (const passage of passages.slice(1)) passage.cancel();
    }
  });

  it('the gate lets one attempt through after a failure', () => {
    const gate = new EndpointGate();
    for (let index = 0; index < 5; index += 1) enter(gate, 'cb_1').leave({ failed: false }, 0);
    enter(gate, 'cb_1').leave({ failed: true }, 0);
    expect(fill(gate, 'cb_1')).toHaveLength(1);
  });

  it('an endpoint that hangs takes one place and holds up no other', () => {
    const gate = new EndpointGate();
    expect(fill(gate, 'cb_hangs')).toHaveLength(1);
    expect(gate.placesFor('cb_hangs', 0)).toBe(0);
    expect(gate.placesFor('cb_works', 0)).toBe(1);
    expect(gate.enter('cb_hangs', 0)).toEqual({ state: 'busy' });
    enter(gate, 'cb_works');
  });

  /** A gate whose endpoint has had so many attempts in a row that took so long. */
  function answering(count: number, tookMs: number): EndpointGate {
    const gate = new EndpointGate();
    for (let index = 0; index < count; index += 1) enter(gate, 'cb_1').leave({ failed: false }, tookMs);
    return gate;
  }

  it('as many deliveries are worth a claim ahead as an endpoint takes in a quarter of a second, at most five times its places', () => {
    expect(answering(10, 1).aheadFor('cb_1')).toBe(160);
    expect(answering(10, 100).aheadFor('cb_1')).toBe(80);
    expect(answering(10, 1_000).aheadFor('cb_1')).toBe(8);
    expect(answering(10, 10_000).aheadFor('cb_1')).toBe(0);
  });

  it('nothing is worth a claim ahead for an endpoint that is new or failed just now', () => {
    expect(new EndpointGate().aheadFor('cb_1')).toBe(0);
    expect(answering(4, 1).aheadFor('cb_1')).toBe(0);
    const gate = answering(10, 1);
    enter(gate, 'cb_1').leave({ failed: true }, 1);
    expect(gate.aheadFor('cb_1')).toBe(0);
    for (let index = 0; index < 5; index += 1) enter(gate, 'cb_1').leave({ failed: false }, 1);
    expect(gate.aheadFor('cb_1')).toBeGreaterThan(0);
  });

  it('nothing more is worth a claim ahead after some was late, until an attempt has ended', () => {
    const gate = answering(10, 1);
    const passage = enter(gate, 'cb_1');
    gate.recordLate('cb_1');
    expect(gate.aheadFor('cb_1')).toBe(0);
    passage.leave({ failed: false }, 1);
    expect(gate.aheadFor('cb_1')).toBe(160);
  });

  it('a place is given back once, however often its attempt ends', () => {
    const gate = new EndpointGate();
    for (let index = 0; index < 3; index += 1) enter(gate, 'cb_1').leave({ failed: false }, 0);
    const [first, ...others] = fill(gate, 'cb_1');
    expect(others).toHaveLength(7);
    first?.leave({ failed: true }, 0);
    first?.leave({ failed: true }, 0);
    first?.cancel();
    for (const passage of others.slice(1)) passage.cancel();
    expect(gate.enter('cb_1', 0)).toEqual({ state: 'busy' });
  });

  it('the gate is open for nobody after five failures, and says until when', () => {
    const gate = new EndpointGate();
    for (let index = 0; index < 5; index += 1) enter(gate, 'cb_1').leave({ failed: true }, 1_000);
    expect(gate.enter('cb_1', 2_000)).toEqual({ state: 'open', retryAtMs: 31_000 });
    expect(gate.placesFor('cb_1', 2_000)).toBe(0);
    expect(gate.placesFor('cb_1', 31_000)).toBe(1);
    enter(gate, 'cb_1', 31_000).leave({ failed: false }, 31_500);
    expect(gate.enter('cb_1', 31_600).state).toBe('entered');
  });

  it('the next attempt is the probe when the first probe was not made', () => {
    const gate = new EndpointGate();
    for (let index = 0; index < 5; index += 1) enter(gate, 'cb_1').leave({ failed: true }, 0);
    enter(gate, 'cb_1', 30_000).cancel();
    enter(gate, 'cb_1', 30_001).leave({ failed: true }, 30_001);
    expect(gate.enter('cb_1', 90_000)).toEqual({ state: 'open', retryAtMs: 90_001 });
  });

  it('the gate remembers a bounded number of endpoints, and always those with an attempt in flight', () => {
    const gate = new EndpointGate({ maxEndpoints: 4 });
    const hanging = enter(gate, 'cb_hangs');
    for (let index = 0; index < 5; index += 1) enter(gate, 'cb_fails').leave({ failed: true }, 0);
    for (let index = 0; index < 100; index += 1) enter(gate, `cb_${index}`).leave({ failed: false }, 0);
    expect(gate.enter('cb_hangs', 0)).toEqual({ state: 'busy' });
    hanging.leave({ failed: false }, 0);
    expect(gate.enter('cb_fails', 0).state).toBe('entered');
  });

  it('a project that uses very many endpoints ends no breaker of another project, and has a bounded number itself', () => {
    const gate = new EndpointGate({ maxEndpoints: 10 });
    for (let time = 0; time < 5; time += 1) enter(gate, 'a cb_fails').leave({ failed: true }, 0);
    for (let time = 0; time < 5; time += 1) enter(gate, 'b cb_fails').leave({ failed: true }, 0);
    for (let index = 0; index < 100; index += 1) enter(gate, `b cb_${index}`).leave({ failed: false }, 0);
    expect(gate.placesFor('a cb_fails', 1)).toBe(0);
    // Unknown again.
    expect(gate.placesFor('b cb_fails', 1)).toBe(1);
    expect(gate.placesFor('b cb_99', 1)).toBe(2);
  });

  it('the gate never exceeds its bound, and gives every place back', () => {
    const step = fc.record({
      endpoint: fc.integer({ min: 0, max: 5 }),
      action: fc.constantFrom('enter', 'succeed', 'fail', 'cancel'),
      waitMs: fc.integer({ min: 0, max: 20_000 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const gate = new EndpointGate({ maxPerEndpoint: 4, maxEndpoints: 1 });
        const inFlight: { endpoint: number; passage: Passage }[] = [];
        let nowMs = 0;
        for (const { endpoint, action, waitMs } of steps) {
          nowMs += waitMs;
          if (action === 'enter') {
            const answer = gate.enter(`cb_${endpoint}`, nowMs);
            if (answer.state === 'entered') inFlight.push({ endpoint, passage: answer });
          } else {
            const passage = inFlight.shift()?.passage;
            if (action === 'cancel') passage?.cancel();
            else passage?.leave({ failed: action === 'fail' }, nowMs);
          }
          expect(inFlight.filter((entry) => entry.endpoint === endpoint).length).toBeLessThanOrEqual(4);
        }
        for (const { passage } of inFlight) passage.cancel();
        for (let endpoint = 0; endpoint <= 5; endpoint += 1) {
          expect(gate.enter(`cb_${endpoint}`, nowMs).state).not.toBe('busy');
        }
      }),
    );
  });
});
