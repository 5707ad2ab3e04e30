import { describe, expect, it } from 'vitest';
import { type FreePlaces, type KeyedQueue, Turns } from '../../../src/sweeper/deliveries/turns.ts';

const dueIn = (projectId: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({
    projectId,
    endpoint: { projectId, endpointId: `cb_${String(index).padStart(4, '0')}` },
    firstMs: index,
  }));

/** Each endpoint has one place, unless `more` says otherwise. */
const placesOf = (free: number, more: Partial<FreePlaces> = {}): FreePlaces => ({
  free,
  kept: 0,
  heldBy: () => 0,
  placesFor: () => 1,
  aheadFor: () => 0,
  aheadOf: () => 0,
  isPaused: () => false,
  ...more,
});

/** How many places each project gets. */
function sumsOf(wanted: readonly { projectId: string; places: number }[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { projectId, places } of wanted) sums[projectId] = (sums[projectId] ?? 0) + places;
  return sums;
}

describe('turns', () => {
  it('a project with very many due endpoints asks for half of the places, also alone', () => {
    const { wanted, isCut } = new Turns().choose(dueIn('a', 1_100), placesOf(512));
    expect(sumsOf(wanted)).toEqual({ a: 256 });
    expect(isCut).toBe(true);
  });

  it('projects get their places by turns, whatever their number of endpoints', () => {
    const due = [...dueIn('a', 1_100), ...dueIn('b', 3), ...dueIn('c', 1_100)];
    const { wanted } = new Turns().choose(due, placesOf(512));
    const sums = sumsOf(wanted);
    expect(sums.b).toBe(3);
    expect(Math.abs((sums.a ?? 0) - (sums.c ?? 0))).toBeLessThanOrEqual(1);
    expect(wanted.slice(0, 3).map(({ projectId }) => projectId)).toEqual(['a', 'b', 'c']);
  });

  it('a project that has its share is passed over, and another one gets its places', () => {
    const due = [...dueIn('a', 1_100), ...dueIn('b', 2)];
    const held = { a: 256 } as Record<string, number>;
    const heldBy = (projectId: string) => held[projectId] ?? 0;
    const { wanted, isCut } = new Turns().choose(due, placesOf(256, { heldBy }));
    expect(sumsOf(wanted)).toEqual({ b: 2 });
    // The next run could ask for nothing more: it comes when an attempt ends.
    expect(isCut).toBe(false);
  });

  it('the next run goes on behind the last endpoint of each project', () => {
    const due = [...dueIn('a', 5), ...dueIn('b', 5)];
    const turns = new Turns();
    const idsOf = () =>
      turns
        .choose(due, placesOf(6))
        .wanted.map(({ projectId, endpoint }) => projectId + endpoint.endpointId.at(-1));
    expect(idsOf()).toEqual(['a0', 'b0', 'a1', 'b1']);
    expect(idsOf()).toEqual(['a2', 'b2', 'a3', 'b3']);
    expect(idsOf()).toEqual(['a4', 'b4', 'a0', 'b0']);
  });

  it('when there is room for few projects alone, each of them has its turn', () => {
    const due = ['a', 'b', 'c', 'd'].flatMap((projectId) => dueIn(projectId, 9));
    const turns = new Turns();
    const served = [1, 2, 3, 4].map(() =>
      turns.choose(due, placesOf(1)).wanted.map(({ projectId }) => projectId),
    );
    expect(served).toEqual([['a'], ['b'], ['c'], ['d']]);
  });

  it('an endpoint that takes several gets as many as the share has room for, and asks from its first due moment', () => {
    const due = dueIn('a', 1).map((ref) => ({ ...ref, firstMs: 77 }));
    const { wanted, isCut } = new Turns().choose(due, placesOf(20, { placesFor: () => 32 }));
    const endpoint = { projectId: 'a', endpointId: 'cb_0000' };
    expect(wanted).toEqual([{ projectId: 'a', endpoint, places: 10, sinceMs: 77 }]);
    expect(isCut).toBe(false);
  });

  it('endpoints that take nothing now are passed over, and nothing is left behind them', () => {
    const turns = new Turns();
    const due = dueIn('a', 10);
    const placesFor = (key: string) => (key.endsWith('7') ? 1 : 0);
    for (let run = 0; run < 2; run += 1) {
      const { wanted, isCut } = turns.choose(due, placesOf(512, { placesFor }));
      expect(wanted.map(({ endpoint }) => endpoint.endpointId)).toEqual(['cb_0007']);
      expect(isCut).toBe(false);
    }
  });

  it('an endpoint gets more ahead once half of what is held for it has begun', () => {
    const wantedAt = (held: number) =>
      sumsOf(
        new Turns().choose(
          dueIn('a', 1),
          placesOf(512, {
            placesFor: () => 0,
            aheadFor: () => 96,
            aheadOf: () => held,
          }),
        ).wanted,
      );
    expect([wantedAt(0), wantedAt(48), wantedAt(49)]).toEqual([{ a: 96 }, { a: 48 }, {}]);
  });

  it('every endpoint has the places that are free there before any has more ahead', () => {
    const more = { placesFor: () => 32, aheadFor: () => 96 };
    const { wanted } = new Turns().choose(dueIn('a', 8), placesOf(512, more));
    expect(wanted.map(({ places }) => places)).toEqual(Array(8).fill(32));
    const fewer = new Turns().choose(dueIn('a', 4), placesOf(512, more));
    expect(fewer.wanted.map(({ places }) => places)).toEqual([96, 96, 32, 32]);
    expect(fewer.isCut).toBe(false);
  });

  it('endpoints that hang take nothing of what is claimed ahead for the others', () => {
    const aheadFor = (endpoint: string) => (endpoint.endsWith('7') ? 96 : 0);
    const { wanted } = new Turns().choose(dueIn('a', 300), placesOf(1_024, { aheadFor, placesFor: () => 0 }));
    expect(wanted).toHaveLength(30);
    expect(new Set(wanted.map(({ places }) => places))).toEqual(new Set([8]));
  });

  describe('an endpoint to which several projects send', () => {
    const SHARED = { projectId: 'd', endpointId: 'cb_shared' };
    const dueAtShared = (...projectIds: string[]) =>
      projectIds.map((projectId) => ({ projectId, endpoint: SHARED, firstMs: 0 }));
    const atShared = (places: number, more: Partial<FreePlaces> = {}) =>
      placesOf(512, {
        placesFor: ({ length }) => (length === 'd cb_shared'.length ? places : 1),
        ...more,
      });

    it('its places are divided among the projects, but for those that pause', () => {
      const due = dueAtShared('a', 'b', 'c');
      expect(sumsOf(new Turns().choose(due, atShared(32)).wanted)).toEqual({ a: 11, b: 11, c: 10 });
      const isPaused = ({ key }: KeyedQueue) => key.endsWith(' b');
      expect(sumsOf(new Turns().choose(due, atShared(32, { isPaused })).wanted)).toEqual({ a: 16, c: 16 });
    });

    it('one place goes round, also among projects that have other endpoints', () => {
      const due = [...dueIn('a', 3), ...dueIn('b', 1), ...dueAtShared('a', 'b', 'c')];
      const turns = new Turns();
      const served = [1, 2, 3, 4].map(() => {
        const { wanted } = turns.choose(due, atShared(1));
        return wanted.filter(({ endpoint }) => endpoint === SHARED).map(({ projectId }) => projectId);
      });
      expect(served).toEqual([['a'], ['b'], ['c'], ['a']]);
    });

    it('a project has its part of what is claimed ahead there, however much is held of another', () => {
      const held: Record<string, number> = { a: 96 };
      const more = {
        aheadFor: () => 96,
        aheadOf: ({ ref }: KeyedQueue) => held[ref.projectId] ?? 0,
      };
      const { wanted } = new Turns().choose(dueAtShared('a', 'b'), atShared(0, more));
      expect(sumsOf(wanted)).toEqual({ b: 48 });
    });

    it('where more projects send than are claimed ahead, that goes round', () => {
      const due = dueAtShared('a', 'b', 'c', 'd', 'e');
      const aheadFor = () => 2;
      const turns = new Turns();
      const served = [1, 2, 3].map(() =>
        Object.keys(sumsOf(turns.choose(due, atShared(0, { aheadFor })).wanted)),
      );
      expect(served.map((of) => of.toSorted())).toEqual([
        ['a', 'b'],
        ['c', 'd'],
        ['a', 'e'],
      ]);
    });

    it('what is left of an endpoint that only one project uses now is all for that one', () => {
      const { wanted } = new Turns().choose(dueAtShared('a'), atShared(32));
      expect(sumsOf(wanted)).toEqual({ a: 32 });
    });
  });
});
