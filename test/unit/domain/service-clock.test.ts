// What the rows of the service clock say: the cases by name, then a history of random faults.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ApiClock, GONE_MS, settleClocks } from '../../../src/domain/service-clock.ts';
import { mergeOutages } from '../../../src/domain/silence.ts';

const T = 1_000_000_000;
const SECOND = 1_000;

const clock = (name: string, seenMs: number, more: Partial<ApiClock> = {}): ApiClock => ({
  apiId: name,
  address: name,
  decidedMs: seenMs,
  seenMs,
  ended: false,
  ...more,
});
const own = (name: string) => ({ apiId: name, address: name });
/** A new process at the address. */
const restarted = (address: string) => ({ apiId: `${address} again`, address });

describe('the rows of the service clock', () => {
  it('an api that stood still finds an outage from the moment up to which its beats were decided', () => {
    const rows = [clock('a', T, { decidedMs: T - 800 }), clock('b', T + 5 * SECOND)];
    expect(settleClocks(rows, own('a'), T + 5 * SECOND)).toEqual({
      clocks: [clock('a', T + 5 * SECOND)],
      outages: [{ fromMs: T - 800, toMs: T + 5 * SECOND, reason: 'away', addresses: ['a'] }],
    });
  });

  it('an api whose address accepts beats again a second after its end leaves an outage of that second', () => {
    const rows = [clock('a', T), clock('b', T + 1_000)];
    const { clocks, outages } = settleClocks(rows, restarted('a'), T + 1_000);
    expect(outages).toEqual([{ fromMs: T, toMs: T + 1_000, reason: 'replaced', addresses: ['a'] }]);
    expect(clocks).toContainEqual(clock('a', T, { ended: true }));
  });

  it('an api that does not return is ended after 30 s, and its address that returns later adds nothing', () => {
    const late = T + GONE_MS + 1;
    const before = settleClocks([clock('a', T), clock('b', late - 1)], own('b'), late - 1);
    expect(before.outages).toEqual([]);
    const rows = [clock('a', T, { decidedMs: T - 400 }), clock('b', late - 500)];
    const { clocks, outages } = settleClocks(rows, own('b'), late);
    expect(outages).toEqual([{ fromMs: T - 400, toMs: T + GONE_MS, reason: 'gone', addresses: ['a'] }]);
    expect(clocks).toEqual([clock('a', T, { decidedMs: T - 400, ended: true }), clock('b', late)]);
    expect(settleClocks(clocks, restarted('a'), late + 1_000).outages).toEqual([]);
  });

  it('when every api has died, the first one back finds one outage, and each other one that of its own delay', () => {
    const back = T + 600 * SECOND;
    const rows = [clock('a', T - 300, { decidedMs: T - 900 }), clock('b', T)];
    const first = settleClocks(rows, restarted('b'), back);
    expect(first.outages).toEqual([{ fromMs: T - 900, toMs: back, reason: 'none', addresses: ['b', 'a'] }]);
    expect(first.clocks).toEqual([
      clock('a', back - 300, { decidedMs: back }),
      clock('b', back, { ended: true }),
      { ...clock('b', back), ...restarted('b') },
    ]);
    const second = settleClocks(first.clocks, restarted('a'), back + 2_000);
    expect(second.outages).toEqual([
      { fromMs: back, toMs: back + 2_000, reason: 'replaced', addresses: ['a'] },
    ]);
  });

  it('the database comes back: the api that notices first covers the other one, which finds nothing', () => {
    const back = T + 600 * SECOND;
    for (const [first, second] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      const rows = [clock('a', T), clock('b', T - 700)];
      const one = settleClocks(rows, own(first), back);
      expect(one.outages).toMatchObject([{ fromMs: T - 700, toMs: back, reason: 'away' }]);
      expect(settleClocks(one.clocks, own(second), back + 300).outages).toEqual([]);
    }
  });

  it('an api that is often away does not keep one that is gone for ever', () => {
    let rows = [clock('gone', T), clock('a', T)];
    let now = T;
    while (rows.some(({ apiId, ended }) => apiId === 'gone' && !ended)) {
      // Ten signs of life, then four seconds without one.
      now += rows.length > 1 && Math.round((now - T) / 1_000) % 14 === 10 ? 4_000 : 1_000;
      expect(now - T).toBeLessThan(60 * SECOND);
      const { clocks } = settleClocks(rows, own('a'), now);
      rows = rows.map((row) => clocks.find(({ apiId }) => apiId === row.apiId) ?? row);
    }
  });

  it('an api that lives and was ended, by a process of the same address, goes on without an outage', () => {
    const rows = [clock('a', T, { ended: true }), clock('other', T, { address: 'a' })];
    expect(settleClocks(rows, own('a'), T + 500)).toEqual({ clocks: [clock('a', T + 500)], outages: [] });
  });

  it('a database clock that was set back brings every row back, and is no outage', () => {
    const rows = [clock('a', T), clock('b', T), clock('old', T - 10, { ended: true })];
    const now = T - 3_600 * SECOND;
    expect(settleClocks(rows, own('a'), now)).toEqual({
      clocks: [clock('b', now), clock('old', now, { ended: true }), clock('a', now)],
      outages: [],
      setBackMs: 3_600 * SECOND,
    });
    expect(settleClocks(rows, restarted('c'), now).outages).toEqual([]);
  });
});

// A history: three addresses, half a second a step. What a process holds is neither committed nor excused; it is lost when
// the process dies, and so is what is sent to its address until another process is there, for 30 s at most.
interface Process {
  apiId: string;
  heldMs?: number;
  /** No sign of life before. */
  awayUntilMs: number;
}
interface Place {
  process?: Process;
  /** Died without a goodbye. */
  lost?: { fromMs: number; toMs: number };
}

const STEP = 500;
const event = fc.record({
  place: fc.nat(2),
  what: fc.constantFrom('kill', 'start', 'start', 'end', 'away', 'hold', 'pay', 'database', 'nothing'),
  steps: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 13, max: 90 })),
});

class History {
  readonly places: Place[] = [{}, {}, {}];
  rows: ApiClock[] = [];
  outages: { fromMs: number; toMs: number }[] = [];
  nowMs = T;
  #started = 0;

  apply({ place: at, what, steps }: { place: number; what: string; steps: number }): void {
    const place = this.places[at] as Place;
    const { process } = place;
    if (what === 'start' && !process) {
      this.#started += 1;
      place.process = { apiId: `${at}-${this.#started}`, awayUntilMs: this.nowMs };
    }
    if (what === 'database') {
      for (const { process: each } of this.places) if (each) each.awayUntilMs = this.nowMs + steps * STEP;
    }
    if (!process) return;
    const row = this.rows.find(({ apiId }) => apiId === process.apiId);
    if (what === 'kill' || (what === 'end' && process.heldMs !== undefined)) {
      if (row) place.lost = { fromMs: process.heldMs ?? this.nowMs, toMs: row.seenMs + GONE_MS };
      place.process = undefined;
    } else if (what === 'end' && process.awayUntilMs <= this.nowMs) {
      this.#sign(at, process);
      this.rows = this.rows.map((each) =>
        each.apiId === process.apiId ? { ...each, decidedMs: this.nowMs, ended: true } : each,
      );
      place.process = undefined;
    } else if (what === 'away') process.awayUntilMs = this.nowMs + steps * STEP;
    else if (what === 'hold') process.heldMs ??= this.nowMs;
    else if (what === 'pay' && process.awayUntilMs <= this.nowMs) process.heldMs = undefined;
  }

  step(): void {
    this.nowMs += STEP;
    for (const [at, { process }] of this.places.entries()) {
      if (process && process.awayUntilMs <= this.nowMs) this.#sign(at, process);
    }
  }

  #sign(at: number, process: Process): void {
    const isFirst = this.rows.every(({ apiId }) => apiId !== process.apiId);
    const { clocks, outages } = settleClocks(
      this.rows,
      { apiId: process.apiId, address: `${at}` },
      this.nowMs,
    );
    const changed = clocks.map((row) =>
      row.apiId === process.apiId ? { ...row, decidedMs: process.heldMs ?? row.decidedMs } : row,
    );
    const rest = this.rows.filter(({ apiId }) => changed.every((row) => row.apiId !== apiId));
    this.rows = [...rest, ...changed];
    this.outages = mergeOutages([...this.outages, ...outages]);
    const place = this.places[at] as Place;
    if (isFirst && place.lost) place.lost.toMs = Math.min(place.lost.toMs, this.nowMs);
  }

  get horizonMs(): number {
    const running = this.rows.filter(({ ended }) => !ended);
    if (running.length > 0) return Math.min(...running.map(({ decidedMs }) => decidedMs));
    return Math.max(...this.rows.map(({ decidedMs }) => decidedMs));
  }

  covers(ms: number): boolean {
    return this.outages.some(({ fromMs, toMs }) => fromMs <= ms && ms <= toMs);
  }
}

describe('a history of faults', () => {
  it('the horizon passes no lost moment that no outage covers', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 60 }), (events) => {
        const history = new History();
        history.apply({ place: 0, what: 'start', steps: 0 });
        for (const each of events) {
          for (let step = 0; step < (each.what === 'nothing' ? each.steps : 2); step += 1) {
            history.step();
            const { horizonMs } = history;
            for (const { lost, process } of history.places) {
              for (let ms = lost?.fromMs ?? 0; lost && ms < Math.min(lost.toMs, horizonMs); ms += STEP) {
                expect(history.covers(ms), `lost at ${ms - T}, horizon ${horizonMs - T}`).toBe(true);
              }
              const row = history.rows.find(({ apiId }) => apiId === process?.apiId);
              const isHeld = row && !row.ended && process?.heldMs !== undefined && process.heldMs < horizonMs;
              if (isHeld) expect(history.covers(process.heldMs ?? 0)).toBe(true);
            }
          }
          history.apply(each);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('when nothing is wrong any more, the horizon follows within 31 s and no outage is added', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 40 }), (events) => {
        const history = new History();
        for (const each of events) {
          history.apply(each);
          history.step();
        }
        for (const { process } of history.places) {
          if (process) Object.assign(process, { heldMs: undefined, awayUntilMs: history.nowMs });
        }
        history.apply({ place: 0, what: 'start', steps: 0 });
        for (let step = 0; step < 63; step += 1) history.step();
        expect(history.horizonMs).toBe(history.nowMs);
        const { outages, nowMs } = history;
        for (let step = 0; step < 200; step += 1) history.step();
        expect(history.outages).toEqual(outages);
        expect(outages.every(({ toMs }) => toMs <= nowMs)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
