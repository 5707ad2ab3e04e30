import { describe, expect, it } from 'vitest';
import { ClaimParts } from '../../../src/sweeper/deliveries/claim-parts.ts';

const wantedOf = (...projectIds: string[]) =>
  projectIds.map((projectId) => ({ projectId, endpoint: { projectId, endpointId: 'cb_1' }, places: 1 }));
const [ABC, A, B, C] = [wantedOf('a', 'b', 'c'), wantedOf('a'), wantedOf('b'), wantedOf('c')];

describe('the parts of a claim', () => {
  it('all projects are claimed together', () => {
    expect(new ClaimParts().partsOf(ABC)).toEqual([ABC]);
    expect(new ClaimParts().partsOf([])).toEqual([]);
  });

  it('after a claim that took too long its projects are claimed one by one, behind the others, until that succeeds', () => {
    const parts = new ClaimParts();
    parts.recordFailure(wantedOf('b', 'c'), 0);
    expect(['b', 'c'].some((project) => parts.isPaused(project, 0))).toBe(false);
    expect(parts.partsOf(ABC)).toEqual([A, B]);
    parts.recordSuccess(A);
    parts.recordSuccess(B);
    expect(parts.partsOf(ABC)).toEqual([wantedOf('a', 'b'), C]);
    parts.recordSuccess(C);
    expect(parts.partsOf(ABC)).toEqual([ABC]);
  });

  it('a project whose own claim takes too long pauses for a second, and twice as long each further time, up to half a minute', () => {
    const parts = new ClaimParts();
    parts.recordFailure(ABC, 0);
    for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      parts.recordFailure(B, 0);
      expect(parts.isPaused('b', pauseMs - 1)).toBe(true);
      expect(parts.isPaused('b', pauseMs)).toBe(false);
      expect(parts.isPaused('a', 0)).toBe(false);
    }
  });

  it('of several projects whose claims take too long the one that was claimed longest ago is next', () => {
    const parts = new ClaimParts();
    parts.recordFailure(ABC, 0);
    for (const part of [A, B, C, A]) {
      expect(parts.partsOf(ABC)).toEqual([part]);
      parts.recordFailure(part, 0);
    }
    expect(parts.partsOf(wantedOf('a', 'c'))).toEqual([C]);
  });

  it('a project that is due alone pauses for two seconds at most, until others are due', () => {
    const parts = new ClaimParts();
    for (const pauseMs of [1_000, 2_000, 2_000, 2_000]) {
      parts.recordFailure(parts.partsOf(B)[0] ?? [], 0);
      expect(parts.isPaused('b', pauseMs - 1)).toBe(true);
      expect(parts.isPaused('b', pauseMs)).toBe(false);
    }
    expect(parts.partsOf(ABC)).toEqual([wantedOf('a', 'c'), B]);
    parts.recordFailure(B, 0);
    expect(parts.isPaused('b', 15_999)).toBe(true);
    expect(parts.isPaused('b', 16_000)).toBe(false);
  });
});
