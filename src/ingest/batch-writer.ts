// Writes one batch of beats on a lane, again and again while somebody waits for it: plain beats in one statement, what that
// leaves and the others in a transaction, and one by one where a beat is at fault. batcher.ts decides what is a batch.
import { ProblemError } from '../domain/problem.ts';
import {
  isFaultOfData,
  isLockTimeout,
  isOfManyShards,
  isRefusedStatement,
} from '../store/postgres/database-error.ts';
import type { BeatItem, BeatOutcome } from './apply-items.ts';
import { CommitUnknownError, runBeatTransaction } from './beat-transaction.ts';
import type { Lane } from './lane.ts';
import type { LockedMonitors } from './locked-monitors.ts';
import type { MonitorDirectory } from './monitor-directory.ts';
import { isPlain, runPlainBeats } from './plain-beats.ts';

/** A beat whose sender waits for an answer. */
export interface Waiting {
  item: BeatItem;
  /** Of `performance.now()`. */
  expiresAt: number;
  settled: boolean;
  /** A batch has left it for a later one: it would have taken too long. */
  isLeft?: boolean;
  resolve: (outcome: BeatOutcome) => void;
}

export interface BatchWriterOptions {
  directory: MonitorDirectory;
  locked: LockedMonitors<Waiting>;
  /** Called with the outcome of a beat, also of one that was settled meanwhile. */
  settle: (waiting: Waiting, outcome: BeatOutcome) => void;
  onError: (error: unknown) => void;
  /** The connection of a lane was lost. */
  onLost: () => void;
}

const RETRY_MS = [5, 20, 50];

export class BatchWriter {
  readonly #options: BatchWriterOptions;

  constructor(options: BatchWriterOptions) {
    this.#options = options;
  }

  /** Returns the beats that wait for a later batch. */
  async write(lane: Lane, batch: Waiting[]): Promise<Waiting[]> {
    const { plain, others } = split(batch);
    const ineligible = await this.#writePlain(lane, plain);
    return await this.#writeUntilSettled(lane, [...ineligible, ...others]);
  }

  /** What an attempt writes: the beats for which somebody still waits. */
  #begin(batch: readonly Waiting[]) {
    const pending = batch.filter((waiting) => !waiting.settled);
    const items = pending.map((waiting) => waiting.item);
    return { pending, items, skipsLocked: this.#options.locked.skips };
  }

  /** Writes plain beats while somebody waits for them. Returns those that need a full transaction. */
  async #writePlain(lane: Lane, batch: Waiting[]): Promise<Waiting[]> {
    for (let attempt = 0; ; attempt += 1) {
      const { pending, items, skipsLocked } = this.#begin(batch);
      if (pending.length === 0) return [];
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
          for (const waiting of pending) this.#options.settle(waiting, { problem: unavailable(error) });
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
      const { pending, items, skipsLocked } = this.#begin(batch);
      if (pending.length === 0) return [];
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
        const cause = isUnknown ? error.cause : error;
        if (isFaultOfData(cause)) return await this.#writeOneByOne(lane, pending);
        if (isOfManyShards(cause)) {
          await this.#lookUpAgain(lane, pending);
          // Those of one project are in one shard, whichever that is.
          const parts = [...Map.groupBy(pending, projectOf).values()];
          if (parts.length > 1) return await this.#writeParts(lane, parts);
        }
        await this.#pauseAfter(error, attempt);
      }
    }
  }

  /** One of the beats is at fault. */
  async #writeOneByOne(lane: Lane, pending: Waiting[]): Promise<Waiting[]> {
    const [first, ...others] = pending;
    if (first && others.length === 0) {
      const problem = new ProblemError('internal_error', { detail: 'The beat could not be recorded.' });
      this.#options.settle(first, { problem });
      return [];
    }
    const parts = pending.map((waiting) => [waiting]);
    return await this.#writeParts(lane, parts);
  }

  /** One after the other. The beats of a monitor stay in order. */
  async #writeParts(lane: Lane, parts: Waiting[][]): Promise<Waiting[]> {
    const left: Waiting[] = [];
    for (const part of parts) {
      const mustWait = left.some((earlier) =>
        part.some((waiting) => monitorOf(earlier) === monitorOf(waiting)),
      );
      left.push(...(mustWait ? part : await this.#writeUntilSettled(lane, part)));
    }
    return left;
  }

  /** A shard was split since it was looked up. Where that fails, the next attempt looks it up. */
  async #lookUpAgain(lane: Lane, pending: readonly Waiting[]): Promise<void> {
    const { directory } = this.#options;
    const addresses = new Set(pending.map(({ item }) => item.entry.address));
    try {
      const fresh = await lane.write((connection) => directory.reload(connection, [...addresses]));
      for (const { item } of pending) item.entry = fresh.get(item.entry.address) ?? item.entry;
    } catch (error) {
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    this.#options.onError(error);
    if (!isRefusedStatement(error)) this.#options.onLost();
  }

  /** After a failed attempt, before the next one. */
  async #pauseAfter(error: unknown, attempt: number): Promise<void> {
    // The next attempt skips locked rows. If it meets a lock too, that is not a row's: the database is at fault.
    if (isLockTimeout(error) && this.#options.locked.startSkipping()) return;
    await pauseBefore(attempt);
  }

  /** Asks until the answer is known. Undefined: nobody waits any more. */
  async #findOut(lane: Lane, pending: Waiting[]): Promise<boolean | undefined> {
    for (let attempt = 0; pending.some((waiting) => !waiting.settled); attempt += 1) {
      try {
        return await lane.wasCommitted();
      } catch (error) {
        this.#options.onError(error);
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
      if (typeof result === 'object') this.#options.settle(waiting, result);
      else left.push(waiting);
      waiting.isLeft = result === 'deferred';
      if (result === 'locked') this.#options.locked.add(monitorOf(waiting));
    }
    return left;
  }
}

/** Of the first of these beats; undefined where the database has no shards. */
export function shardOf([first]: readonly Waiting[]): number | undefined {
  return first?.item.entry.shard;
}

/** Its key. */
export function monitorOf({ item }: Waiting): string {
  return item.entry.monitor.monitorKey;
}

function projectOf({ item }: Waiting): string {
  return item.entry.monitor.projectId;
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
