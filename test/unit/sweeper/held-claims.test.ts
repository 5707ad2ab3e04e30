import { describe, expect, it } from 'vitest';
import type { ClaimedDelivery } from '../../../src/store/deliveries/delivery-queue.ts';
import { HeldClaims } from '../../../src/sweeper/deliveries/held-claims.ts';

const KEY = 'p cb';

function claimOf(deliveryId: string, projectId = 'p', endpointId = 'cb'): ClaimedDelivery {
  return { deliveryId, projectId, endpoint: { projectId: 'p', endpointId } } as ClaimedDelivery;
}

/** Adds a claim of each letter, the first at 0 ms and each other a millisecond after the one before. */
function hold(...claims: ClaimedDelivery[]): HeldClaims {
  const held = new HeldClaims();
  for (const [index, claim] of claims.entries()) held.add(claim, index);
  return held;
}

const idsOf = (claims: ClaimedDelivery[]) => claims.map(({ deliveryId }) => deliveryId);

function drain(held: HeldClaims, since = 0): (string | undefined)[] {
  return Array.from({ length: held.countAt(KEY) }, () => held.takeNext(KEY, since)?.deliveryId);
}

describe('held claims', () => {
  it('held claims of one project go in their order', () => {
    expect(drain(hold(claimOf('a'), claimOf('b'), claimOf('c')))).toEqual(['a', 'b', 'c']);
  });

  it('projects with claims held for one endpoint take turns, however many each has', () => {
    const held = hold(claimOf('a1'), claimOf('a2'), claimOf('a3'), claimOf('b1', 'q'), claimOf('b2', 'q'));
    expect(drain(held)).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
    expect([held.count, held.countAt(KEY)]).toEqual([0, 0]);
  });

  it('a claim that is too old is not the next one, and is among the older ones', () => {
    const held = hold(claimOf('a'), claimOf('b'), claimOf('c', 'q'));
    expect(held.takeNext(KEY, 2)?.deliveryId).toBe('c');
    expect(held.takeNext(KEY, 2)).toBeUndefined();
    expect(idsOf(held.takeOlder(1))).toEqual(['a']);
    expect(held.takeNext(KEY, 1)?.deliveryId).toBe('b');
    expect(held.count).toBe(0);
  });

  it('all claims of one endpoint can be taken, and those of the others stay', () => {
    const held = hold(claimOf('a'), claimOf('b', 'q'), claimOf('c', 'p', 'cb_other'));
    expect(idsOf(held.takeOlder(Number.POSITIVE_INFINITY, [KEY]))).toEqual(['a', 'b']);
    expect([held.count, held.countAt(KEY), held.countAt('p cb_other')]).toEqual([1, 0, 1]);
  });
});
