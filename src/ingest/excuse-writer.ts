// Writes the excuses of refused beats into the live rows, exactly once, as soon as the database takes them
// (docs/contract/beats.md). A lane of its own: beats that wait must not hold up the excuses of others.
import {
  findShardsOf,
  type LockedExcuses,
  lockExcused,
  type RefusedBeats,
  writeExcuses,
} from '../store/beats/excuses.ts';
import { afterReading } from '../store/postgres/after-reading.ts';
import { isRefusedForGood } from '../store/postgres/database-error.ts';
import { isDistributed } from '../store/postgres/engine.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import type { Lane, LaneBatch } from './lane.ts';
import type { Excuse, OpenBeats } from './open-beats.ts';

export interface ExcuseWriterOptions {
  openBeats: OpenBeats;
  /** Closed together with the writer. */
  lane: Lane;
  /** A live row that stays locked for longer makes its excuse an outage for all. */
  busyMs?: number;
  /** How long `close` tries. */
  closeMs?: number;
  /** Called with the number of refused beats that live rows show now. */
  onWritten?: (beats: number) => void;
  onError?: (error: unknown) => void;
}

const PERIOD_MS = 100;
/** The most addresses in one transaction: it locks their rows for some ms. */
const MAX_CHUNK = 1_000;
const BUSY_MS = 10_000;
const CLOSE_MS = 10_000;

export class ExcuseWriter {
  readonly #options: ExcuseWriterOptions;
  readonly #timer: NodeJS.Timeout;
  #pass: Promise<void> | undefined;
  #closesAt = Number.POSITIVE_INFINITY;

  constructor(options: ExcuseWriterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => {
      afterReading(() => options.openBeats.refuseSlowBodies());
      void this.#start();
    }, PERIOD_MS);
    this.#timer.unref();
  }

  /**
   * Writes what is left, also of beats that are still to be refused, for at most `closeMs`. Call it when no beat can
   * arrive any more. Returns the number of addresses whose excuses could not be written.
   */
  async close(): Promise<number> {
    clearInterval(this.#timer);
    const { openBeats, lane, closeMs = CLOSE_MS } = this.#options;
    this.#closesAt = performance.now() + closeMs;
    await this.#pass;
    const isDone = () => openBeats.open === 0 && openBeats.excuses === 0;
    while (!isDone() && performance.now() < this.#closesAt) {
      await this.#start();
      if (!isDone()) await pause();
    }
    await lane.close();
    return openBeats.excuses;
  }

  #start(): Promise<void> | undefined {
    if (this.#options.openBeats.excuses === 0) return this.#pass;
    this.#pass ??= this.#writeAll().finally(() => {
      this.#pass = undefined;
    });
    return this.#pass;
  }

  async #writeAll(): Promise<void> {
    const { openBeats, onError } = this.#options;
    const excuses = openBeats.take();
    try {
      for (let start = 0; start < excuses.length; start += MAX_CHUNK) {
        await this.#writeShards(excuses.slice(start, start + MAX_CHUNK));
      }
    } catch (error) {
      onError?.(error);
    } finally {
      openBeats.giveBack();
    }
  }

  /** The batch of a lane is in one shard, where the database has shards. */
  async #writeShards(excuses: readonly Excuse[]): Promise<void> {
    if (!isDistributed()) return await this.#writeChunk(excuses);
    const addresses = excuses.map(({ address }) => address);
    const shards = await this.#options.lane.write((connection) => findShardsOf(connection, addresses));
    for (const [shard, part] of Map.groupBy(excuses, ({ address }) => shards.get(address)))
      await this.#writeChunk(part, shard);
  }

  async #writeChunk(excuses: readonly Excuse[], shard?: number): Promise<void> {
    const { lane } = this.#options;
    let locked: LockedExcuses | undefined;
    const write = async (connection: Queryable, batch: LaneBatch) => {
      locked = await lockExcused(connection, toRefusedBeats(excuses));
      await writeExcuses(connection, locked, batch);
    };
    try {
      await lane.write(write, shard);
    } catch (error) {
      if (!(await this.#wasCommitted())) return await this.#writeHalves(excuses, error, shard);
    }
    // A batch that was committed has locked its rows before.
    if (locked) this.#discharge(excuses, locked);
  }

  /**
   * One of the rows may be at fault: the others must not be lost with it. It would fail again, and detection waits for
   * it. Any other error ends the pass; the next one tries again.
   */
  async #writeHalves(excuses: readonly Excuse[], error: unknown, shard?: number): Promise<void> {
    if (!isRefusedForGood(error)) throw error;
    this.#options.onError?.(error);
    if (excuses.length === 1) {
      for (const excuse of excuses) this.#options.openBeats.giveUp(excuse);
      return;
    }
    const middle = Math.ceil(excuses.length / 2);
    await this.#writeChunk(excuses.slice(0, middle), shard);
    await this.#writeChunk(excuses.slice(middle), shard);
  }

  /** Asks until the answer is known: a batch that is written twice would count its beats twice. */
  async #wasCommitted(): Promise<boolean> {
    const { lane, onError } = this.#options;
    for (;;) {
      try {
        return await lane.wasCommitted();
      } catch (error) {
        if (performance.now() >= this.#closesAt) throw error;
        onError?.(error);
        await pause();
      }
    }
  }

  #discharge(excuses: readonly Excuse[], { rows, busy }: LockedExcuses): void {
    const { openBeats, busyMs = BUSY_MS, onWritten } = this.#options;
    const now = performance.now();
    for (const excuse of excuses) {
      if (!busy.has(excuse.address)) openBeats.discharge(excuse);
      else if (now - (excuse.busySince ?? now) >= busyMs) openBeats.giveUp(excuse);
      else excuse.busySince ??= now;
    }
    onWritten?.(rows.reduce((sum, { beats }) => sum + beats, 0));
  }
}

function toRefusedBeats(excuses: readonly Excuse[]): RefusedBeats[] {
  const now = performance.now();
  return excuses.map(({ address, firstAt, newestAt, beats }) => ({
    address,
    beats,
    firstAgeMs: now - firstAt,
    newestAgeMs: now - newestAt,
  }));
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
}
