// One probe of arrivals for several service clocks: it forgets what none of them will ask for.
import type { ArrivalProbe } from './arrival-probe.ts';

export type Arrivals = Pick<ArrivalProbe, 'knownAt' | 'earliestArrival' | 'forget'>;

/** The probe, for each of `count` readers. */
export function shareArrivals(probe: Arrivals, count: number): Arrivals[] {
  if (count === 1) return [probe];
  const forgotten = Array.from({ length: count }, () => Number.NEGATIVE_INFINITY);
  return forgotten.map((_, index) => ({
    get knownAt() {
      return probe.knownAt;
    },
    earliestArrival: (at) => probe.earliestArrival(at),
    forget: (beforeAt) => {
      forgotten[index] = beforeAt;
      probe.forget(Math.min(...forgotten));
    },
  }));
}
