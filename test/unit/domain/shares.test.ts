import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { roomOf, Shares } from '../../../src/domain/shares.ts';

/** Takes places as long as there is room. Returns how many. */
function fill(shares: Shares, holder: string): number {
  let count = 0;
  for (; shares.roomFor(holder) > 0; count += 1) shares.take(holder);
  return count;
}

describe('shares of places', () => {
  it('one alone gets half of the places, and each who comes next half of the rest', () => {
    const shares = new Shares(512);
    expect(['a', 'b', 'c'].map((holder) => fill(shares, holder))).toEqual([256, 128, 64]);
  });

  it('those who take by turns get the same number of places each, and leave as many', () => {
    for (const holders of [1, 2, 3, 7, 100]) {
      const shares = new Shares(512);
      const names = Array.from({ length: holders }, (_, index) => `holder ${index}`);
      for (let took = true; took; ) {
        took = false;
        for (const name of names) {
          if (shares.roomFor(name) === 0) continue;
          shares.take(name);
          took = true;
        }
      }
      const held = names.map((name) => shares.heldBy(name));
      expect(Math.max(...held) - Math.min(...held)).toBeLessThanOrEqual(1);
      expect(shares.free + 1).toBeGreaterThanOrEqual(Math.max(...held));
    }
  });

  it('of the places that are kept each has two, and who comes behind a hundred who take all that they get finds room', () => {
    const shares = new Shares(576, 64);
    expect(fill(shares, 'alone')).toBe(256);
    const fillAll = (names: readonly string[]) => {
      for (let took = true; took; ) {
        took = false;
        for (const name of names) {
          if (shares.roomFor(name) === 0) continue;
          shares.take(name);
          took = true;
        }
      }
    };
    fillAll(Array.from({ length: 100 }, (_, index) => `hangs ${index}`));
    expect(shares.free).toBeGreaterThanOrEqual(64);
    const late = Array.from({ length: 30 }, (_, index) => `late ${index}`);
    fillAll(late);
    for (const name of late) expect(shares.heldBy(name)).toBeGreaterThanOrEqual(2);
    expect(shares.free).toBeGreaterThanOrEqual(0);
  });

  it('the room is as many places as one may take one by one', () => {
    fc.assert(
      fc.property(fc.nat(600), fc.nat(600), fc.constantFrom(0, 64), (held, free, kept) => {
        const mayTake = (own: number, left: number) => own < left - kept || (kept > 0 && own < 2 && left > 0);
        let count = 0;
        while (mayTake(held + count, free - count)) count += 1;
        expect(roomOf(held, free, kept)).toBe(count);
      }),
    );
  });

  it('somebody without a place finds room as long as one is free, and nobody more than there are', () => {
    const steps = fc.array(fc.record({ holder: fc.nat(9), takes: fc.boolean() }), { maxLength: 300 });
    fc.assert(
      fc.property(steps, (given) => {
        const shares = new Shares(16);
        for (const { holder, takes } of given) {
          const name = `holder ${holder}`;
          if (takes && shares.roomFor(name) > 0) shares.take(name);
          if (!takes && shares.heldBy(name) > 0) shares.giveBack(name);
          expect(shares.roomFor('new') > 0).toBe(shares.free > 0);
          expect(shares.free).toBeGreaterThanOrEqual(0);
        }
        for (let index = 0; index <= 9; index += 1) {
          while (shares.heldBy(`holder ${index}`) > 0) shares.giveBack(`holder ${index}`);
        }
        expect(shares.free).toBe(16);
      }),
    );
  });
});
