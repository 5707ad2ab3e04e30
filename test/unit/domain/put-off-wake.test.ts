// Beats put off the next wake without moving the one that is stored. Everything that time does to a monitor must be as if
// each beat had stored its next wake.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applyBeat, type Beat } from '../../../src/domain/beat.ts';
import { nextWake, putOffWake } from '../../../src/domain/deadline.ts';
import { hasEnded, type Incident } from '../../../src/domain/incident.ts';
import type { LiveState, Timing } from '../../../src/domain/monitor.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { anyTiming, HOUR, liveOf, MINUTE, NOW, SECOND, timingOf } from './timing.ts';

/** A monitor and its sweeper, which wakes it exactly when it is to be woken. */
class WatchedMonitor {
  readonly #timing: Timing;
  readonly #storesEachWake: boolean;
  live: LiveState;
  incidents: Incident[] = [];
  wakes = 0;

  constructor(timing: Timing, { storesEachWake }: { storesEachWake: boolean }) {
    this.#timing = timing;
    this.#storesEachWake = storesEachWake;
    this.live = liveOf({ wakeMs: nextWake(timing, liveOf(), NOW - HOUR) });
  }

  runUntil(untilMs: number): void {
    for (let wakeMs = this.live.wakeMs; wakeMs !== undefined && wakeMs < untilMs; wakeMs = this.live.wakeMs) {
      this.wakes += 1;
      const moment = { nowMs: wakeMs, horizonMs: wakeMs, outages: [] };
      const { live, transitions } = wakeMonitor(this.#timing, this.live, this.#open(), moment);
      if (live.wakeMs === wakeMs) throw new Error('The sweeper would wake it for ever.');
      this.live = live;
      this.#record(transitions);
    }
  }

  beat(beat: Beat, atMs: number): void {
    this.runUntil(atMs);
    const { live, transitions } = applyBeat(this.#timing, this.live, this.#open(), beat, atMs);
    this.live = this.#storesEachWake ? { ...live, wakeMs: nextWake(this.#timing, live, atMs) } : live;
    this.#record(transitions);
  }

  /** What has been seen of its silences: causes and moments, not the random ids. */
  get seen(): object[] {
    return this.incidents.map(({ incidentId: _, ...incident }) => incident);
  }

  #open(): Incident[] {
    return this.incidents.filter((incident) => !hasEnded(incident));
  }

  #record(transitions: readonly { incident: Incident }[]): void {
    for (const { incident } of transitions) {
      const at = this.incidents.findIndex(({ incidentId }) => incidentId === incident.incidentId);
      if (at < 0) this.incidents.push(incident);
      else this.incidents[at] = incident;
    }
  }
}

const anyBeat = fc.record({
  kind: fc.constantFrom('success', 'success', 'success', 'fail', 'start', 'log'),
  runId: fc.constantFrom(undefined, undefined, 'a', 'b'),
  afterMs: fc.oneof(fc.integer({ min: 1, max: 20 * MINUTE }), fc.integer({ min: 1, max: 3 * HOUR })),
}) satisfies fc.Arbitrary<Beat & { afterMs: number }>;

describe('a beat that puts off the next wake', () => {
  it('incidents open at the same moments, and for the same reasons, as if each beat had stored its next wake', () => {
    fc.assert(
      fc.property(anyTiming, fc.array(anyBeat, { maxLength: 60 }), (timing, beats) => {
        const real = new WatchedMonitor(timing, { storesEachWake: false });
        const model = new WatchedMonitor(timing, { storesEachWake: true });
        let atMs = NOW - HOUR;
        for (const { afterMs, ...beat } of beats) {
          atMs += afterMs;
          real.beat(beat, atMs);
          model.beat(beat, atMs);
          expect(real.seen).toEqual(model.seen);
          const next = nextWake(timing, real.live, atMs);
          expect(real.live.wakeMs === undefined).toBe(next === undefined);
          expect(real.live.wakeMs ?? 0).toBeLessThanOrEqual(next ?? 0);
        }
        for (const monitor of [real, model]) monitor.runUntil(atMs + 1_000 * HOUR);
        expect(real.seen).toEqual(model.seen);
      }),
      { numRuns: 2_000 },
    );
  });

  it('a sender with a steady rhythm within the interval is never woken, whatever the rhythm', () => {
    const interval = 100 * SECOND;
    fc.assert(
      fc.property(
        fc.double({ min: 0.01, max: 0.95, noNaN: true }),
        fc.array(fc.double({ min: -0.02, max: 0.02, noNaN: true }), { minLength: 100, maxLength: 300 }),
        (period, jitters) => {
          const monitor = new WatchedMonitor(timingOf({ intervalMs: interval }), { storesEachWake: false });
          for (const [index, jitter] of jitters.entries()) {
            const atMs = Math.round(interval * (period * index + jitter));
            monitor.beat({ kind: 'success' }, NOW + atMs);
          }
          expect(monitor.wakes).toBe(0);
        },
      ),
    );
  });

  it('a sender of any rhythm is woken for nothing once in an interval at most', () => {
    const interval = 100 * SECOND;
    const gap = fc.oneof(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: interval - 1 }));
    fc.assert(
      fc.property(fc.array(gap, { minLength: 2, maxLength: 300 }), (gaps) => {
        const monitor = new WatchedMonitor(timingOf({ intervalMs: interval }), { storesEachWake: false });
        let atMs = NOW;
        for (const gapMs of gaps) {
          atMs += gapMs;
          monitor.beat({ kind: 'success' }, atMs);
        }
        expect(monitor.wakes).toBeLessThanOrEqual(Math.floor((atMs - NOW) / interval));
      }),
    );
  });

  it.each([
    [50, 0.95],
    [10, 0.8],
    [5, 0.66],
    [3, 0.5],
    [2, 0],
  ])('of %d beats in an interval a share of %d leaves the stored wake where it is', (count, share) => {
    const monitor = new WatchedMonitor(timingOf({ intervalMs: HOUR }), { storesEachWake: false });
    let left = 0;
    for (let beat = 0; beat < 100 * count; beat += 1) {
      const before = monitor.live.wakeMs;
      monitor.beat({ kind: 'success' }, NOW + Math.floor((beat * HOUR) / count));
      if (monitor.live.wakeMs === before) left += 1;
    }
    expect(left / (100 * count)).toBeCloseTo(share, 1);
  });
});

it('a stored wake stays only if it comes before the next one and three fifths of the time until then are left', () => {
  const at = (seconds: number) => NOW + seconds * SECOND;
  expect(putOffWake(at(60), at(100), NOW)).toBe(at(60));
  expect(putOffWake(at(100), at(100), NOW)).toBe(at(100));
  for (const stored of [undefined, at(59), at(-1), at(101)]) {
    expect(putOffWake(stored, at(100), NOW)).toBe(at(100));
  }
  expect(putOffWake(at(60), undefined, NOW)).toBeUndefined();
});
