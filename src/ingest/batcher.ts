// Batches without a timer: one transaction is in flight, and the beats that arrive meanwhile are the next batch. A
// second lane works only while commits are slow. Bounded: past `maxQueued` a beat is refused with 503, and no beat waits
// longer than its patience.
import { afterReading } from '../store/postgres/after-reading.ts';
import type { BeatItem, BeatOutcome } from './apply-items.ts';
import { BatchWriter, monitorOf, shardOf, unavailable, type Waiting } from './batch-writer.ts';
import type { Lane } from './lane.ts';
import { LockedMonitors } from './locked-monitors.ts';
import type { MonitorDirectory } from './monitor-directory.ts';

export interface BatcherOptions {
  /** At least one; further ones are used while commits are slow. */
  lanes: readonly Lane[];
  directory: MonitorDirectory;
  /** The most beats in one transaction. */
  maxBatch?: number;
  /** The most beats that may wait. */
  maxQueued?: number;
  /** A beat that is not durable after this time is answered 503 (docs/contract/beats.md: an answer within 10 s). */
  patienceMs?: number;
  onBatch?: (batch: { size: number; durationMs: number }) => void;
  onError?: (error: unknown) => void;
}

const SLOW_COMMIT_MS = 8;
/** The most beats in a batch that an earlier one has left: thousands of them take turns with those that came later. */
const MOST_LEFT = 128;

export class Batcher {
  readonly #options: Required<Omit<BatcherOptions, 'onBatch' | 'onError'>> & BatcherOptions;
  #queue: Waiting[] = [];
  readonly #inFlight = new Set<Waiting[]>();
  readonly #idle: Lane[];
  #usualMs = 1;
  #isPumping = false;
  /** Called at the end of the turn of the event loop. */
  readonly #answers: (() => void)[] = [];
  readonly #locked = new LockedMonitors<Waiting>((beats) => {
    // Those that came later are still in the queue.
    this.#queue = beats.concat(this.#queue);
    this.#pump();
  });
  readonly #writer: BatchWriter;
  #isClosed = false;
  readonly #expiry: NodeJS.Timeout;

  constructor(options: BatcherOptions) {
    this.#options = { maxBatch: 512, maxQueued: 20_000, patienceMs: 8_000, ...options };
    this.#idle = [...options.lanes];
    this.#writer = new BatchWriter({
      directory: options.directory,
      locked: this.#locked,
      settle: (waiting, outcome) => this.#settle(waiting, outcome),
      onError: (error) => options.onError?.(error),
      // The connections that are idle may be dead too.
      onLost: () => {
        for (const lane of this.#idle) lane.distrust();
      },
    });
    this.#expiry = setInterval(() => afterReading(() => this.#expire()), 250);
    this.#expiry.unref();
  }

  get queued(): number {
    return this.#queue.length + this.#locked.waiting;
  }

  /**
   * Resolves when the beat is durable, or to the problem that refused it. Never rejects. `waitedMs`: how much of its
   * patience the beat has spent.
   */
  submit(item: BeatItem, waitedMs = 0): Promise<BeatOutcome> {
    if (this.#isClosed || this.queued >= this.#options.maxQueued) {
      return Promise.resolve({ problem: unavailable() });
    }
    return new Promise((resolve) => {
      const expiresAt = performance.now() - waitedMs + this.#options.patienceMs;
      this.#queue.push({ item, expiresAt, settled: false, resolve });
      this.#pump();
    });
  }

  /** Accepts no more beats, writes the waiting ones, closes the lanes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.queued > 0 || this.#inFlight.size > 0) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    clearInterval(this.#expiry);
    await Promise.all(this.#options.lanes.map((lane) => lane.close()));
  }

  /**
   * Runs after everything that arrived in this turn of the event loop is read. The next batch is sent first, so that the
   * database works while the answers to the last batch are written.
   */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    setImmediate(() => {
      this.#isPumping = false;
      this.#startFlights();
    });
    setImmediate(() => {
      for (const give of this.#answers.splice(0)) give();
    });
  }

  #startFlights(): void {
    while (this.#queue.length > 0 && this.#mayStart()) {
      const batch = this.#takeBatch();
      const lane = batch.length > 0 ? this.#idle.shift() : undefined;
      if (!lane) return;
      this.#inFlight.add(batch);
      void this.#fly(lane, batch);
    }
  }

  /**
   * The next beats, without those of monitors that another lane is writing, which would overtake the beats before them or
   * wait for the same row, and without those whose row somebody else holds. Of those that were left, which take long, it takes
   * some. Where the database has shards: of one shard, which no other lane is writing to.
   */
  #takeBatch(): Waiting[] {
    const busy = new Set([...this.#inFlight].flat().map(monitorOf));
    const batch: Waiting[] = [];
    const left: Waiting[] = [];
    const busyShards = new Set([...this.#inFlight].map(shardOf));
    let seen = 0;
    let again = 0;
    for (const waiting of this.#queue) {
      if (batch.length === this.#options.maxBatch) break;
      seen += 1;
      if (waiting.settled) continue;
      const monitor = monitorOf(waiting);
      // Also of a monitor that is locked: the earlier ones come back from their lane first.
      if (busy.has(monitor) || !fits(waiting, batch, busyShards)) left.push(waiting);
      else if (waiting.isLeft && again === MOST_LEFT) {
        // Nor may a later beat of the monitor overtake it.
        busy.add(monitor);
        left.push(waiting);
      } else if (!this.#locked.has(monitor)) {
        batch.push(waiting);
        if (waiting.isLeft) again += 1;
      } else if (!this.#locked.keep(monitor, waiting)) this.#settle(waiting, { problem: unavailable() });
    }
    // A long queue is not looked at again for each batch.
    this.#queue = left.concat(this.#queue.slice(seen));
    return batch;
  }

  #mayStart(): boolean {
    if (this.#inFlight.size === 0) return true;
    const hasShards = shardOf(this.#queue) !== undefined;
    return (hasShards || this.#usualMs > SLOW_COMMIT_MS) && this.#idle.length > 0;
  }

  async #fly(lane: Lane, batch: Waiting[]): Promise<void> {
    const startedAt = performance.now();
    const left = await this.#writer.write(lane, batch);
    this.#queue.unshift(...left);
    const durationMs = performance.now() - startedAt;
    this.#usualMs += (durationMs - this.#usualMs) / 8;
    if (batch.length > 0) this.#options.onBatch?.({ size: batch.length, durationMs });
    this.#inFlight.delete(batch);
    this.#idle.push(lane);
    this.#pump();
  }

  #settle(waiting: Waiting, outcome: BeatOutcome): void {
    if (waiting.settled) return;
    waiting.settled = true;
    this.#answers.push(() => waiting.resolve(outcome));
    this.#pump();
  }

  #expire(): void {
    const now = performance.now();
    for (const batch of [this.#queue, this.#locked.beats(), ...this.#inFlight]) {
      for (const waiting of batch) {
        if (waiting.expiresAt <= now) this.#settle(waiting, { problem: unavailable() });
      }
    }
    if (this.#queue.some((waiting) => waiting.settled))
      this.#queue = this.#queue.filter((waiting) => !waiting.settled);
  }
}

function fits(waiting: Waiting, batch: readonly Waiting[], busyShards: ReadonlySet<number | undefined>) {
  const { shard } = waiting.item.entry;
  return shard === undefined || (batch.length > 0 ? shard === shardOf(batch) : !busyShards.has(shard));
}
