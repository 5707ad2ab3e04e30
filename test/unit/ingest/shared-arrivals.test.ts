// One probe of arrivals for the service clocks of several databases.
import { expect, it } from 'vitest';
import { shareArrivals } from '../../../src/ingest/shared-arrivals.ts';

it('forgets nothing that one of the readers may still ask for', () => {
  const forgotten: number[] = [];
  const probe = {
    knownAt: 7,
    earliestArrival: (at: number) => at - 1,
    forget: (at: number) => forgotten.push(at),
  };
  const [first, second] = shareArrivals(probe, 2);
  first?.forget(100);
  expect(forgotten).toEqual([Number.NEGATIVE_INFINITY]);
  second?.forget(40);
  // The clock of the second one stands: its database is away.
  first?.forget(300);
  expect(forgotten.slice(1)).toEqual([40, 40]);
  second?.forget(350);
  expect(forgotten.at(-1)).toBe(300);
  expect([second?.knownAt, second?.earliestArrival(5)]).toEqual([7, 4]);
});
