// Monitors whose live rows somebody else holds locked. Their beats wait alone, in order, without a lane, and are tried
// again every now and then. While there are such rows no batch waits for a lock: the next row may be one of them.
import { isDistributed } from '../store/postgres/engine.ts';

const RETRY_MS = 100;
/** So long after the last lock that was met. */
const SKIP_MS = 1_000;
/** The most beats of one monitor that wait: a flood to one locked row must not take the places of others. */
const MAX_WAITING = 256;

export class LockedMonitors<Beat> {
  readonly #retry: (beats: Beat[]) => void;
  /** By monitor, in their order. */
  readonly #monitors = new Map<string, Beat[]>();
  #waiting = 0;
  #skipsUntil = 0;

  /** `retry`: called with the beats that waited, when they may be tried again. */
  constructor(retry: (beats: Beat[]) => void) {
    this.#retry = retry;
  }

  /**
   * Whether batches skip rows that are locked, in place of waiting for them. On Citus always: its machines do not get the
   * lock time-out of the session, and a batch would wait until its statement is canceled.
   */
  get skips(): boolean {
    return isDistributed() || performance.now() < this.#skipsUntil;
  }

  /** How many beats wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** A batch has met a lock. Returns whether skipping locked rows is new, and may help. */
  startSkipping(): boolean {
    const isNew = !this.skips;
    this.#skipsUntil = performance.now() + SKIP_MS;
    return isNew;
  }

  /** Whether the monitor's beats wait. */
  has(monitorKey: string): boolean {
    return this.#monitors.has(monitorKey);
  }

  add(monitorKey: string): void {
    this.startSkipping();
    if (this.#monitors.size === 0) setTimeout(() => this.#release(), RETRY_MS);
    if (!this.has(monitorKey)) this.#monitors.set(monitorKey, []);
  }

  /** Takes a beat of a monitor that was added, behind its earlier ones. False: too many wait. */
  keep(monitorKey: string, beat: Beat): boolean {
    const beats = this.#monitors.get(monitorKey);
    if (!beats || beats.length >= MAX_WAITING) return false;
    beats.push(beat);
    this.#waiting += 1;
    return true;
  }

  beats(): Beat[] {
    return [...this.#monitors.values()].flat();
  }

  #release(): void {
    const beats = this.beats();
    this.#monitors.clear();
    this.#waiting = 0;
    this.#retry(beats);
  }
}
