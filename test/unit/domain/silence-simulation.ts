// A simulated installation for the property test of silences: it drives the real domain code as ingest and the sweeper
// do. Sweeps come late, a horizon lags behind, and outages become known only after they are over.
import { applyBeat, type Beat } from '../../../src/domain/beat.ts';
import { hasEnded, type Incident } from '../../../src/domain/incident.ts';
import { changeLifecycle, type LifecycleAction } from '../../../src/domain/lifecycle.ts';
import { type LiveState, newLiveState, type Outage, type Timing } from '../../../src/domain/monitor.ts';
import { mergeOutages } from '../../../src/domain/silence.ts';
import { wakeMonitor } from '../../../src/domain/wake.ts';
import { HOUR, MINUTE, SECOND } from './timing.ts';

/** A random number generator of one seed (mulberry32), so that a failure can be repeated. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** At least 0, less than 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** Each order of magnitude as often as another. */
  scaled(min: number, max: number): number {
    return Math.round(min * (max / min) ** this.next());
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.between(0, values.length - 1)] as Value;
  }
}

/** An outage of one of two apis. Nobody knows of it, and its start holds the horizon, until `knownMs`. */
export interface ApiOutage extends Outage {
  api: number;
  knownMs: number;
}

/** Outages of every sort between two moments, in the order of their starts. */
export function randomOutages(random: Random, beginMs: number, untilMs: number): ApiOutage[] {
  const outages: ApiOutage[] = [];
  const add = (fromMs: number, lengthMs: number) => {
    const toMs = fromMs + lengthMs;
    const knownMs = toMs + (random.chance(0.1) ? random.between(0, 10 * MINUTE) : random.between(0, 2_000));
    const apis = random.chance(0.3) ? [0, 1] : [random.between(0, 1)];
    for (const api of apis) outages.push({ api, fromMs, toMs, knownMs: api === 0 ? knownMs : toMs });
  };
  const spread = untilMs - beginMs;
  const several = () => random.scaled(1, 200);
  if (random.chance(0.4))
    for (let count = several(); count > 0; count -= 1)
      add(beginMs + random.between(0, spread), random.scaled(SECOND, 12 * HOUR));
  if (random.chance(0.3))
    for (let atMs = beginMs; atMs < untilMs; atMs += 24 * HOUR)
      add(atMs + random.between(0, HOUR), 10 * SECOND);
  // An api that crashes and starts again, for hours.
  for (let loops = random.between(0, 3); loops > 0; loops -= 1) {
    const everyMs = random.scaled(20 * SECOND, 20 * MINUTE);
    const startMs = beginMs + random.between(0, spread);
    for (let count = random.scaled(2, 400); count > 0; count -= 1)
      add(startMs + count * everyMs, random.between(SECOND, everyMs / 2));
  }
  return outages.sort((a, b) => a.fromMs - b.fromMs);
}

const LAG_MS = SECOND;
export const MOST_LATE_MS = HOUR;

export class Simulation {
  timing: Timing;
  live: LiveState = newLiveState();
  incidents: Incident[] = [];
  readonly #outages: readonly ApiOutage[];
  readonly #random: Random;
  /** The arrival of the newest beat that was refused. */
  refusedMs = 0;
  #nowMs = 0;
  #refusals: { arrivedMs: number; paidMs: number }[] = [];

  constructor(timing: Timing, outages: readonly ApiOutage[], random: Random) {
    this.timing = timing;
    this.#outages = outages;
    this.#random = random;
  }

  /** All that happens before `untilMs`. A beat that arrived at `pendingMs` is not committed meanwhile. */
  runUntil(untilMs: number, pendingMs = Number.POSITIVE_INFINITY): void {
    for (;;) {
      const refusedMs = this.#refusals.reduce(
        (first, { arrivedMs }) => Math.min(first, arrivedMs),
        pendingMs,
      );
      const [next] = this.#refusals.toSorted((a, b) => a.paidMs - b.paidMs);
      const stopMs = Math.min(untilMs, next?.paidMs ?? untilMs);
      this.#sweepUntil(stopMs, refusedMs);
      this.#nowMs = Math.max(this.#nowMs, stopMs);
      if (next === undefined || next.paidMs > untilMs) return;
      this.#refusals = this.#refusals.filter((refusal) => refusal !== next);
      this.#excuse(next.arrivedMs);
    }
  }

  #sweepUntil(untilMs: number, pendingMs: number): void {
    for (;;) {
      const { wakeMs } = this.live;
      if (wakeMs === undefined || wakeMs > pendingMs || wakeMs >= untilMs) return;
      const dueMs = Math.max(this.#nowMs, this.whenHorizonReaches(wakeMs));
      const late = this.#random.chance(0.02) ? MOST_LATE_MS : 2 * SECOND;
      const nowMs = dueMs + this.#random.between(0, late);
      if (nowMs >= untilMs) return;
      this.#wake(nowMs, Math.min(this.#horizonAt(nowMs), pendingMs));
    }
  }

  commit(beat: Beat, arrivedMs: number, nowMs: number): void {
    this.runUntil(nowMs, arrivedMs);
    const result = applyBeat(this.timing, this.live, this.#notEnded(), beat, nowMs);
    this.live = result.live;
    this.#record(result.transitions.map(({ incident }) => incident));
  }

  /** The service refuses a beat. It holds the horizon until the monitor's row knows of it. */
  refuse(arrivedMs: number, paidMs: number): void {
    this.runUntil(arrivedMs);
    this.refusedMs = arrivedMs;
    this.#refusals.push({ arrivedMs, paidMs });
  }

  #excuse(arrivedMs: number): void {
    const { deadlineMs, anchorMs = 0, excusedMs = 0, excusedFromMs, excusedBeats = 0 } = this.live;
    if (deadlineMs === undefined || anchorMs >= arrivedMs) return;
    const continues = excusedMs >= anchorMs;
    this.live = {
      ...this.live,
      excusedFromMs: continues ? (excusedFromMs ?? arrivedMs) : arrivedMs,
      excusedMs: Math.max(excusedMs, arrivedMs),
      excusedBeats: continues ? excusedBeats + 1 : 1,
    };
  }

  act(action: LifecycleAction, nowMs: number, window?: { startsMs: number; endsMs: number }): void {
    this.runUntil(nowMs);
    const { timing, live } = changeLifecycle(this.timing, this.live, action, { nowMs, window });
    this.timing = timing;
    this.live = live;
  }

  /** Replaces the live state, as a change of the configuration does. */
  change(change: (timing: Timing, live: LiveState) => LiveState, nowMs: number): void {
    this.runUntil(nowMs);
    this.live = change(this.timing, this.live);
  }

  /** Every outage that is not over or not known holds the horizon at its start. */
  whenHorizonReaches(atMs: number): number {
    let nowMs = atMs + LAG_MS;
    for (const { fromMs, knownMs } of this.#outages) {
      if (fromMs >= atMs) break;
      nowMs = Math.max(nowMs, knownMs);
    }
    return nowMs;
  }

  #horizonAt(nowMs: number): number {
    const holding = this.#outages.find(({ fromMs, knownMs }) => fromMs <= nowMs && knownMs > nowMs);
    return Math.min(nowMs - LAG_MS, holding?.fromMs ?? nowMs);
  }

  #wake(nowMs: number, horizonMs: number): void {
    const sinceMs = Math.min(
      this.live.anchorMs ?? nowMs,
      ...this.live.openRuns.flatMap(({ startedMs, dueMs }) => (dueMs === undefined ? [] : [startedMs])),
    );
    const outages = mergeOutages(
      this.#outages.filter(({ toMs, knownMs }) => toMs > sinceMs && knownMs <= nowMs),
    );
    const { live, transitions } = wakeMonitor(this.timing, this.live, this.#notEnded(), {
      nowMs,
      horizonMs,
      outages,
    });
    if (live.wakeMs !== undefined && live.wakeMs <= horizonMs) throw new Error('The sweep would never end.');
    this.#nowMs = nowMs;
    this.live = live;
    this.#record(transitions.map(({ incident }) => incident));
  }

  #notEnded(): Incident[] {
    return this.incidents.filter((incident) => !hasEnded(incident));
  }

  #record(changed: readonly Incident[]): void {
    const ids = new Set(changed.map(({ incidentId }) => incidentId));
    this.incidents = [...this.incidents.filter(({ incidentId }) => !ids.has(incidentId)), ...changed];
  }
}
