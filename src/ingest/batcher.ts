// Batches without a timer: one transaction is in flight, and the beats that arrive meanwhile are the next batch. A
// second lane works only while commits are slow. Bounded: past `maxQueued` a beat is refused with 503, and no beat waits
// longer than its patience.
import { ProblemError } from '../domain/problem.ts';
import { afterReading } from '../store/postgres/after-reading.ts';
import { isFaultOfData, isLockTimeout, isRefusedStatement } from '../store/postgres/database-error.ts';
import type { BeatItem, BeatOutcome } from './apply-items.ts';
import { CommitUnknownError, runBeatTransaction } from './beat-transaction.ts';
import type { Lane } from './lane.ts';
import { LockedMonitors } from './locked-monitors.ts';
import type { MonitorDirectory } from './monitor-directory.ts';
import { isPlain, runPlainBeats } from './plain-beats.ts';

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

interface Waiting {
  item: BeatItem;
  expiresAt: number;
  settled: boolean;
  resolve: (outcome: BeatOutcome) => void;
}

const SLOW_COMMIT_MS = 8;
const RETRY_MS = [5, 20, 50];

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
  #isClosed = false;
  readonly #expiry: NodeJS.Timeout;

  constructor(options: BatcherOptions) {
    this.#options = { maxBatch: 512, maxQueued: 20_000, patienceMs: 8_000, ...options };
    this.#idle = [...options.lanes];
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
   * wait for the same row, and without those whose row somebody else holds. Where the database has shards: of one shard,
   * which no other lane is writing to.
   */
  #takeBatch(): Waiting[] {
    const busy = new Set([...this.#inFlight].flat().map(monitorOf));
    const batch: Waiting[] = [];
    const left: Waiting[] = [];
    const busyShards = new Set([...this.#inFlight].map(shardOf));
    let seen = 0;
    for (const waiting of this.#queue) {
      if (batch.length === this.#options.maxBatch) break;
      seen += 1;
      if (waiting.settled) continue;
      const monitor = monitorOf(waiting);
      // Also of a monitor that is locked: the earlier ones come back from their lane first.
      if (busy.has(monitor) || !fits(waiting, batch, busyShards)) left.push(waiting);
      else if (!this.#locked.has(monitor)) batch.push(waiting);
      else if (!this.#locked.keep(monitor, waiting)) this.#settle(waiting, { problem: unavailable() });
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
    const left = await this.#writeBatch(lane, batch);
    this.#queue.unshift(...left);
    const durationMs = performance.now() - startedAt;
    this.#usualMs += (durationMs - this.#usualMs) / 8;
    if (batch.length > 0) this.#options.onBatch?.({ size: batch.length, durationMs });
    this.#inFlight.delete(batch);
    this.#idle.push(lane);
    this.#pump();
  }

  /** Returns the beats that wait for a later batch. */
  async #writeBatch(lane: Lane, batch: Waiting[]): Promise<Waiting[]> {
    const { plain, others } = split(batch);
    const ineligible = await this.#writePlain(lane, plain);
    return await this.#writeUntilSettled(lane, [...ineligible, ...others]);
  }

  /** Writes plain beats while somebody waits for them. Returns those that need a full transaction. */
  async #writePlain(lane: Lane, batch: Waiting[]): Promise<Waiting[]> {
    for (let attempt = 0; ; attempt += 1) {
      const pending = batch.filter((waiting) => !waiting.settled);
      if (pending.length === 0) return [];
      const items = pending.map((waiting) => waiting.item);
      const { skips: skipsLocked } = this.#locked;
      try {
        const results = await lane.write(
          (connection, of) => runPlainBeats(connection, items, { ...of, skipsLocked }),
          shardOf(pending),
        );
        return this.#answer(pending, results);
      } catch (error) {
        this.#report(error);
        if (isFaultOfData(error)) return pending;
        const committed = isRefusedStatement(error) ? false : await this.#findOut(lane, pending);
        // The answer with the sequences is lost: the sender must send again (docs/contract/beats.md).
        if (committed !== false) {
          for (const waiting of pending) this.#settle(waiting, { problem: unavailable(error) });
          return [];
        }
        await this.#pauseAfter(error, attempt);
      }
    }
  }

  /**
   * Writes the batch, with retries while somebody waits for it. If one beat is at fault, writes them one by one. Returns
   * the beats that wait for a later batch.
   */
  async #writeUntilSettled(lane: Lane, batch: Waiting[]): Promise<Waiting[]> {
    const { directory } = this.#options;
    for (let attempt = 0; ; attempt += 1) {
      const pending = batch.filter((waiting) => !waiting.settled);
      if (pending.length === 0) return [];
      const items = pending.map((waiting) => waiting.item);
      const { skips: skipsLocked } = this.#locked;
      try {
        const results = await lane.write(
          (connection, of) => runBeatTransaction(connection, items, { ...of, directory, skipsLocked }),
          shardOf(pending),
        );
        return this.#answer(pending, results);
      } catch (error) {
        this.#report(error);
        const isUnknown = error instanceof CommitUnknownError;
        const committed = isUnknown ? await this.#findOut(lane, pending) : false;
        if (committed === undefined) return [];
        if (committed && isUnknown) return this.#answer(pending, error.results);
        if (isFaultOfData(isUnknown ? error.cause : error)) return await this.#writeOneByOne(lane, pending);
        await this.#pauseAfter(error, attempt);
      }
    }
  }

  /** One of the beats is at fault. Those of a monitor stay in order. */
  async #writeOneByOne(lane: Lane, pending: Waiting[]): Promise<Waiting[]> {
    if (pending.length === 1) {
      this.#fail(pending);
      return [];
    }
    const left: Waiting[] = [];
    for (const waiting of pending) {
      const mustWait = left.some((earlier) => monitorOf(earlier) === monitorOf(waiting));
      left.push(...(mustWait ? [waiting] : await this.#writeUntilSettled(lane, [waiting])));
    }
    return left;
  }

  /** Unless Postgres itself refused the statement, the connections that are idle may be dead too. */
  #report(error: unknown): void {
    this.#options.onError?.(error);
    if (isRefusedStatement(error)) return;
    for (const lane of this.#idle) lane.distrust();
  }

  /** After a failed attempt, before the next one. */
  async #pauseAfter(error: unknown, attempt: number): Promise<void> {
    // The next attempt skips locked rows. If it meets a lock too, that is not a row's: the database is at fault.
    if (isLockTimeout(error) && this.#locked.startSkipping()) return;
    await pauseBefore(attempt);
  }

  /** Asks until the answer is known. Undefined: nobody waits any more. */
  async #findOut(lane: Lane, pending: Waiting[]): Promise<boolean | undefined> {
    for (let attempt = 0; pending.some((waiting) => !waiting.settled); attempt += 1) {
      try {
        return await lane.wasCommitted();
      } catch (error) {
        this.#options.onError?.(error);
        await pauseBefore(attempt);
      }
    }
    return undefined;
  }

  /** Answers the beats that have an outcome; returns the others. Those of a locked row wait alone. */
  #answer(pending: Waiting[], results: (BeatOutcome | string)[]): Waiting[] {
    const left: Waiting[] = [];
    for (const [index, waiting] of pending.entries()) {
      const result = results[index];
      if (typeof result === 'object') this.#settle(waiting, result);
      else left.push(waiting);
      if (result === 'locked') this.#locked.add(monitorOf(waiting));
    }
    return left;
  }

  #settle(waiting: Waiting, outcome: BeatOutcome): void {
    if (waiting.settled) return;
    waiting.settled = true;
    this.#answers.push(() => waiting.resolve(outcome));
    this.#pump();
  }

  #fail(pending: Waiting[]): void {
    const problem = new ProblemError('internal_error', { detail: 'The beat could not be recorded.' });
    for (const waiting of pending) this.#settle(waiting, { problem });
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

/** Of the first of these beats; undefined where the database has no shards. */
function shardOf([first]: readonly Waiting[]): number | undefined {
  return first?.item.entry.shard;
}

function fits(waiting: Waiting, batch: readonly Waiting[], busyShards: ReadonlySet<number | undefined>) {
  const { shard } = waiting.item.entry;
  return shard === undefined || (batch.length > 0 ? shard === shardOf(batch) : !busyShards.has(shard));
}

function monitorOf({ item }: Waiting): string {
  return item.entry.monitor.monitorKey;
}

/** If one beat of a monitor is not plain, none of its beats in the batch is: they stay in order. */
function split(batch: readonly Waiting[]): { plain: Waiting[]; others: Waiting[] } {
  const detailed = new Set<string>();
  for (const { item } of batch) if (!isPlain(item)) detailed.add(item.entry.monitor.monitorKey);
  const plain: Waiting[] = [];
  const others: Waiting[] = [];
  for (const waiting of batch) {
    (detailed.has(waiting.item.entry.monitor.monitorKey) ? others : plain).push(waiting);
  }
  return { plain, others };
}

/** 503 with Retry-After: the beat may be sent again. */
export function unavailable(cause?: unknown): ProblemError {
  return new ProblemError('temporarily_unavailable', {
    detail: 'The beat could not be made durable in time. Send it again.',
    retryAfterSeconds: 1,
    cause,
  });
}

function pauseBefore(attempt: number): Promise<void> {
  const ms = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 50;
  return new Promise((resolve) => setTimeout(resolve, ms));
}
