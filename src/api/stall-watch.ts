// Knows when this process stood still: what arrived meanwhile waits at the sockets, and gets a later time when it is read.
// Moments are those of `performance.now()`.

const PERIOD_MS = 100;
/** A timer that fires later than this was held up. */
const LATE_MS = 50;
/** After so many turns of the event loop everything that had arrived before the first is read. */
const TURNS = 4;

interface Stall {
  fromAt: number;
  /** When everything that had arrived meanwhile was read. */
  toAt: number;
}

/** Resolves when everything that has arrived until now is read. */
export async function readArrived(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

export class StallWatch {
  readonly #timer: NodeJS.Timeout;
  #turnedAt = performance.now();
  /** In the order of time. */
  #stalls: Stall[] = [];

  constructor() {
    this.#timer = setInterval(() => this.#turn(), PERIOD_MS);
    this.#timer.unref();
  }

  /** The earliest moment at which something may have arrived that was read at `at`. */
  earliestArrival(at: number): number {
    const stall = this.#stalls.find(({ toAt }) => toAt >= at);
    return Math.min(at, stall?.fromAt ?? at);
  }

  /** Nobody will ask for anything that was read before. */
  forget(beforeAt: number): void {
    this.#stalls = this.#stalls.filter(({ toAt }) => toAt >= beforeAt);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Timers come before sockets: after a stall this runs first. */
  #turn(): void {
    const now = performance.now();
    if (now - this.#turnedAt > PERIOD_MS + LATE_MS) this.#add({ fromAt: this.#turnedAt, toAt: Infinity });
    this.#turnedAt = now;
  }

  #add(stall: Stall): void {
    this.#stalls.push(stall);
    void readArrived().then(() => {
      stall.toAt = performance.now();
    });
  }
}
