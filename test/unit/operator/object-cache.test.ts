// For how long, and for which desired hash, the operator remembers a refusal.
import { describe, expect, it } from 'vitest';
import { refusedFault } from '../../../src/operator/known/object-cache.ts';

describe('a refusal', () => {
  const fault = { reason: 'Refused', message: 'No.' };
  const refusal = { desiredHash: 'a', code: 'service.validation_failed', fault };

  it('a refusal holds only for the desired state that was refused', () => {
    const memory = { refusal: { ...refusal, untilMs: Number.POSITIVE_INFINITY } };
    expect(refusedFault(memory, 'a', 1e12)).toEqual(fault);
    expect(refusedFault(memory, 'b', 0)).toBeUndefined();
    expect(refusedFault({}, 'a', 0)).toBeUndefined();
  });

  it('a refusal for a limit of the plan ends by itself', () => {
    const memory = { refusal: { ...refusal, code: 'service.plan_limit_reached', untilMs: 1000 } };
    expect(refusedFault(memory, 'a', 999)).toEqual(fault);
    expect(refusedFault(memory, 'a', 1000)).toBeUndefined();
  });
});
