// Senders for the property test of silences, and the obvious bound within which a dead one is found.
import { refitClock } from '../../../src/domain/deadline.ts';
import type { Window } from '../../../src/domain/maintenance.ts';
import type { LiveState, Outage, Timing } from '../../../src/domain/monitor.ts';
import { mergeOutages } from '../../../src/domain/silence.ts';
import type { ApiOutage, Random, Simulation } from './silence-simulation.ts';
import { HOUR, MINUTE, SECOND } from './timing.ts';

/** What becomes of a beat that arrives while its api is away. */
export type Fate =
  /** It is lost, and the sender does not notice; but no second one in one silence. */
  | 'lost'
  /** The sender tries again until the outage is over. */
  | 'retried'
  /** The service refuses it and remembers that, however many there are. */
  | 'excused';

export interface Habit {
  fate: Fate;
  timing: Timing;
  /** The usual time between two beats; undefined with a schedule. */
  periodMs?: number;
  /** How much the time between two beats may differ from it. Undefined: as much as the monitor allows. */
  jitterMs?: number;
}

/** One sender that keeps to its monitor's configuration, against the simulation of the service. */
export class Sender {
  readonly #simulation: Simulation;
  readonly #outages: readonly ApiOutage[];
  readonly #random: Random;
  readonly #habit: Habit;
  #sentMs: number;
  #hasLost = false;
  /** No action changes anything before this moment, because the sender relies on its window. */
  #undisturbedMs = 0;
  #lastActionMs = 0;

  constructor(
    simulation: Simulation,
    outages: readonly ApiOutage[],
    random: Random,
    habit: Habit,
    firstMs: number,
  ) {
    this.#simulation = simulation;
    this.#outages = outages;
    this.#random = random;
    this.#habit = habit;
    this.#sentMs = firstMs;
    this.#deliver(firstMs);
  }

  get lastActionMs(): number {
    return this.#lastActionMs;
  }

  /** Lives until about `untilMs`. `firstActionMs`: from then on somebody does things to the monitor. */
  liveUntil(untilMs: number, firstActionMs = Number.POSITIVE_INFINITY): void {
    let actionMs = firstActionMs;
    while (this.#sentMs < untilMs) {
      actionMs = Math.max(actionMs, this.#sentMs + 10 * SECOND);
      const beatMs = this.#nextBeat(actionMs);
      while (actionMs < beatMs) {
        if (actionMs >= this.#undisturbedMs) this.#act(actionMs);
        actionMs += this.#random.scaled(MINUTE, 20 * (this.#habit.periodMs ?? HOUR));
      }
      this.#maybeStart(beatMs);
      this.#sentMs = this.#send(beatMs);
    }
  }

  /** Begins a run and dies in it, or just dies. */
  die(): void {
    if (this.#random.chance(0.5)) this.#maybeStart(this.#sentMs + HOUR);
  }

  #nextBeat(actionMs: number): number {
    const { earliestMs, latestMs } = this.#allowedSpan();
    const window = this.#simulation.timing.maintenance;
    const mayRest = window && latestMs >= window.startsMs && window.endsMs < actionMs;
    if (mayRest && this.#random.chance(0.5)) {
      this.#undisturbedMs = window.endsMs;
      return Math.max(latestMs, window.endsMs - 2);
    }
    if (this.#random.chance(0.2)) return latestMs;
    if (this.#random.chance(0.3)) return this.#beatInOutage(earliestMs, latestMs);
    return this.#random.between(earliestMs, latestMs);
  }

  /** When the monitor allows the next beat; most senders are punctual, but rarely early. */
  #allowedSpan(): { earliestMs: number; latestMs: number } {
    const { timing, periodMs = 0, jitterMs } = this.#habit;
    const misses = this.#random.between(0, timing.missedBeatsToOpen - 1);
    if (timing.schedule) {
      let cronMs = this.#sentMs;
      for (let times = 0; times <= misses; times += 1) cronMs = timing.schedule.nextAfter(cronMs) ?? cronMs;
      return { earliestMs: cronMs, latestMs: cronMs + timing.graceMs - 2 };
    }
    const usualMs = this.#sentMs + (misses + 1) * periodMs;
    if (jitterMs !== undefined) return { earliestMs: usualMs - jitterMs, latestMs: usualMs + jitterMs };
    const earliestMs = this.#random.chance(0.2) ? this.#sentMs + 10 * SECOND : usualMs;
    return { earliestMs, latestMs: usualMs + timing.graceMs - 2 };
  }

  /** Meets an outage, if there is one: that is what the test is about. */
  #beatInOutage(earliestMs: number, latestMs: number): number {
    const met = this.#outages.filter(({ fromMs, toMs }) => toMs > earliestMs && fromMs <= latestMs);
    if (met.length === 0) return this.#random.between(earliestMs, latestMs);
    const { fromMs, toMs } = this.#random.pick(met);
    const beginMs = Math.max(fromMs, earliestMs);
    const endMs = Math.min(toMs - 1, latestMs);
    return this.#random.pick([beginMs, endMs, this.#random.between(beginMs, endMs)]);
  }

  /** Returns when the sender is done with the beat. */
  #send(arrivedMs: number): number {
    const { fate } = this.#habit;
    const outage = this.#outageAt(arrivedMs);
    const isRefused = fate === 'excused' && (outage !== undefined || this.#random.chance(0.05));
    if (isRefused) {
      const paidMs = Math.max(arrivedMs, outage?.toMs ?? 0) + this.#random.between(0, 20 * SECOND);
      this.#simulation.refuse(arrivedMs, paidMs);
      return arrivedMs;
    }
    if (!outage) {
      this.#deliver(arrivedMs);
      return arrivedMs;
    }
    if (fate === 'lost' && !this.#hasLost) {
      this.#hasLost = true;
      return arrivedMs;
    }
    return this.#send(outage.toMs + 1);
  }

  #deliver(arrivedMs: number): void {
    this.#hasLost = false;
    const tookMs = this.#random.chance(0.05) ? this.#random.between(0, 8_000) : 20;
    this.#simulation.commit({ kind: 'success', runId: this.#runId }, arrivedMs, arrivedMs + tookMs);
    this.#runId = undefined;
  }

  #runId: string | undefined;

  /** A run that ends with the beat at `endMs`. Its start is lost if its api is away. */
  #maybeStart(endMs: number): void {
    const { maxRuntimeMs } = this.#habit.timing;
    if (maxRuntimeMs === undefined || this.#random.chance(0.3)) return;
    const startMs = Math.max(endMs - this.#random.between(1, maxRuntimeMs - 2), this.#sentMs + 10 * SECOND);
    if (startMs >= endMs - 10 * SECOND) return;
    this.#runId = this.#random.chance(0.5) ? `run-${startMs}` : undefined;
    if (this.#outageAt(startMs)) return;
    this.#simulation.commit({ kind: 'start', runId: this.#runId }, startMs, startMs + 20);
  }

  #act(atMs: number): void {
    this.#lastActionMs = atMs;
    const { timing } = this.#simulation;
    const window = timing.maintenance;
    const choice = this.#random.between(0, 4);
    if (choice === 0) {
      this.#simulation.change((now, live) => refitClock(now, live, atMs), atMs);
    } else if (choice === 1) {
      this.#simulation.act('pause', atMs);
      this.#simulation.act('resume', atMs + this.#random.between(0, 1_000));
    } else if (choice === 2 && window && window.endsMs > atMs) {
      this.#simulation.act('exit_maintenance', atMs);
    } else {
      const usualMs = this.#habit.periodMs ?? HOUR;
      const startsMs = atMs + this.#random.between(-usualMs, 2 * usualMs);
      const endsMs = Math.max(startsMs, atMs) + this.#random.scaled(MINUTE, 5 * usualMs);
      this.#simulation.act('enter_maintenance', atMs, { startsMs, endsMs });
    }
  }

  #outageAt(atMs: number): ApiOutage | undefined {
    const api = this.#random.between(0, 1);
    return this.#outages.find((outage) => outage.api === api && outage.fromMs <= atMs && atMs < outage.toMs);
  }
}

/**
 * The latest deadline of a silence that began at `sinceMs`: the time of the deadlines twice, and the outages' lengths
 * once (docs/contract/deadlines.md). A window that meets the silence begins it anew.
 */
export function latestDeadline(
  timing: Timing,
  live: LiveState,
  sinceMs: number,
  outages: readonly Outage[],
): number {
  const window: Window | undefined = timing.maintenance;
  const merged = mergeOutages(outages.filter(({ toMs }) => toMs > sinceMs));
  let startMs = sinceMs;
  let boundMs = startMs;
  for (;;) {
    const metMs = merged
      .filter(({ fromMs }) => fromMs < boundMs)
      .map(({ fromMs, toMs }) => toMs - Math.max(fromMs, sinceMs));
    if (window && window.startsMs <= boundMs) startMs = Math.max(startMs, window.endsMs);
    const nextMs = latestRestart(timing, live, deadlines(timing, live, startMs), metMs);
    if (nextMs === boundMs) return boundMs;
    boundMs = nextMs;
  }
}

/**
 * The deadlines once more after `firstMs`, with the outages' lengths before the restart or after it. That is the same but
 * with a schedule, whose next time may be soon or far.
 */
function latestRestart(
  timing: Timing,
  live: LiveState,
  firstMs: number,
  lengthsMs: readonly number[],
): number {
  let leftMs = lengthsMs.reduce((sum, lengthMs) => sum + lengthMs, 0);
  let plainMs = firstMs;
  let latestMs = deadlines(timing, live, plainMs) + leftMs;
  for (const lengthMs of lengthsMs) {
    plainMs += lengthMs;
    leftMs -= lengthMs;
    latestMs = Math.max(latestMs, deadlines(timing, live, plainMs) + leftMs);
  }
  return latestMs;
}

/** The last of `missedBeatsToOpen` deadlines of a clock that starts at `atMs`. */
function deadlines(
  { schedule, intervalMs, graceMs, missedBeatsToOpen }: Timing,
  live: LiveState,
  atMs: number,
): number {
  let dueMs = atMs;
  for (let missed = 0; missed < missedBeatsToOpen; missed += 1) {
    dueMs = schedule ? (schedule.nextAfter(dueMs) ?? dueMs) : dueMs + (intervalMs ?? live.cadenceMs ?? 0);
  }
  return dueMs + graceMs;
}
