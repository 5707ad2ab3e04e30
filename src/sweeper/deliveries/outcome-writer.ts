// Writes the outcomes of deliveries: one batch at a time, and outcomes that come meanwhile are the next batch. While the
// database is away outcomes wait here. A delivery whose lease another dispatcher has taken belongs to that dispatcher.
// The outcomes of all projects share the batches: one that can't be written now is held back, and holds up no other.
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import { isFaultOfData, isOfManyShards, isTimedOut } from '../../store/postgres/database-error.ts';
import { isDistributed } from '../../store/postgres/engine.ts';
import { boundMonitor, writeAudit } from '../../telemetry/audit.ts';
import type { Log } from '../../telemetry/log.ts';
import { endsWithin } from '../ends-within.ts';
import { Loop, type RunResult } from '../loop.ts';
import type { DeliveryOutcome } from './delivery-outcome.ts';
import { LastDeliveries } from './last-deliveries.ts';
import {
  type DisabledEndpoint,
  isAt,
  type WriterDeps,
  type WrittenOutcome,
  writeOutcomes,
} from './write-outcomes.ts';

export interface OutcomeWriterOptions extends WriterDeps {
  log: Log;
  /** Called after the commit with what was written, without deliveries that belong to another dispatcher by then. */
  onWritten: (written: WrittenOutcome[]) => void;
}

interface Waiting {
  outcome: DeliveryOutcome;
  /** Called once, when the outcome is written or can't be. */
  settle: () => void;
  /** Of `performance.now()`: no batch takes it before. */
  heldUntil: number;
  /** It could not be written in time by itself: it is in no batch with others again. */
  isSuspect: boolean;
}

const MAX_BATCH = 256;
/** A transaction costs as much as twenty of its rows: a small batch waits a moment for more outcomes. */
const SMALL_BATCH = 64;
const LINGER_MS = 5;
const IDLE_MS = 100;
/** Of an endpoint whose row somebody else had locked. */
const BUSY_MS = 100;
/** After an outcome that timed out alone its endpoint waits twice as long: it has a third of the writer's time at most. */
const TIMED_OUT_PAUSE = 2;
/** How long the process, when it ends, waits for a database that is away. */
const DRAIN_MS = 5_000;
/** And after that for the batch under way. */
const LAST_BATCH_MS = 1_000;

export class OutcomeWriter {
  readonly #options: OutcomeWriterOptions;
  readonly #loop: Loop;
  #queue: Waiting[] = [];
  /** Outcomes that are still written one by one, to find the one at which a batch failed. */
  #single = 0;
  /** The last batch was a suspect: the others have the next. */
  #wasSuspect = false;
  /** Of the last batch, where the database has shards: they take turns. */
  #lastShard = -1;
  readonly #last: LastDeliveries | undefined;

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
    if (isDistributed()) this.#last = new LastDeliveries(options);
    this.#loop = new Loop({
      intervalMs: IDLE_MS,
      maxBackoffMs: 1_000,
      run: () => this.#run(),
      onError: (err) => options.log.warn({ err }, 'Outcomes of deliveries could not be written yet.'),
    });
  }

  /** Outcomes that are not written yet. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Queues an outcome. Calls `settle` when it is written, or when the delivery belongs to another dispatcher by then. */
  add(outcome: DeliveryOutcome, settle: () => void): void {
    this.#queue.push({ outcome, settle, heldUntil: 0, isSuspect: false });
    this.#loop.wake();
  }

  /**
   * Writes what waits, for six seconds at most; returns the deliveries whose outcomes could not be written. None while a
   * batch may still be written: their leases end by themselves.
   */
  async stop(): Promise<ClaimedDelivery[]> {
    const deadline = performance.now() + DRAIN_MS;
    while (this.#queue.length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const isOver = await endsWithin(this.#loop.stop(), LAST_BATCH_MS);
    if (this.#last) await endsWithin(this.#last.stop(), LAST_BATCH_MS);
    if (!isOver) return [];
    return this.#queue.map(({ outcome }) => outcome.claim);
  }

  async #run(): Promise<RunResult> {
    if (this.#ready().length === 0) return 'idle';
    if (this.#queue.length < SMALL_BATCH) await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
    const batch = this.#nextBatch();
    const startedAt = performance.now();
    try {
      const { written, busy, newest, disabled } = await writeOutcomes(
        this.#options,
        batch.map(({ outcome }) => outcome),
      );
      for (const endpoint of disabled) auditDisabled(this.#options.log, endpoint);
      this.#last?.add(newest);
      this.#settle(batch.filter(isAt(busy, false)));
      this.#hold(batch.filter(isAt(busy, true)), BUSY_MS);
      this.#options.onWritten(written);
    } catch (error) {
      this.#isolate(batch, error, startedAt);
    }
    this.#single = Math.max(0, this.#single - 1);
    return this.#ready().length > 0 ? 'more' : 'idle';
  }

  #ready(): Waiting[] {
    const now = performance.now();
    return this.#queue.filter(({ heldUntil }) => heldUntil <= now);
  }

  /** Suspects and the others take turns. While a batch is written one by one its outcomes go first. */
  #nextBatch(): Waiting[] {
    const ready = this.#ready();
    const others = ready.filter(({ isSuspect }) => !isSuspect);
    const [suspect] = ready
      .filter(({ isSuspect }) => isSuspect)
      .sort((one, other) => one.heldUntil - other.heldUntil);
    const isTurn = others.length === 0 || (this.#single === 0 && !this.#wasSuspect);
    this.#wasSuspect = suspect !== undefined && isTurn;
    if (suspect && isTurn) return [suspect];
    return this.#ofNextShard(others).slice(0, this.#single > 0 ? 1 : MAX_BATCH);
  }

  /** All of them, where the database has no shards. A batch that is written one by one stays in its shard. */
  #ofNextShard(others: readonly Waiting[]): readonly Waiting[] {
    if (!isDistributed()) return others;
    const shards = others.map(shardOf).sort((one, other) => one - other);
    const last = this.#lastShard;
    const next = shards.find((shard) => shard > last || (this.#single > 0 && shard === last)) ?? shards[0];
    this.#lastShard = next ?? -1;
    return others.filter((waiting) => shardOf(waiting) === next);
  }

  #settle(ended: readonly Waiting[]): void {
    const gone = new Set(ended);
    this.#queue = this.#queue.filter((waiting) => !gone.has(waiting));
    for (const { settle } of ended) settle();
  }

  /** A cancellation is not kept: whoever claims the delivery next cancels it. */
  #hold(held: readonly Waiting[], ms: number): void {
    const heldUntil = performance.now() + ms;
    for (const waiting of held) waiting.heldUntil = heldUntil;
    this.#settle(held.filter(({ outcome }) => outcome.kind === 'canceled'));
  }

  /** A batch at which one outcome may be to blame is written one by one. Throws what is no fault of an outcome. */
  #isolate(batch: readonly Waiting[], error: unknown, startedAt: number): void {
    if (!isFaultOfData(error) && !isTimedOut(error) && !isOfManyShards(error)) throw error;
    const [first, ...others] = batch;
    if (!first || others.length > 0) {
      this.#single = batch.length + 1;
      return;
    }
    const { deliveryId, endpoint } = first.outcome.claim;
    if (!isFaultOfData(error)) {
      this.#options.log.warn(
        { err: error, deliveryId },
        isOfManyShards(error)
          ? 'The database refused the outcome of a delivery: its rows are in several shards. It will be tried again.'
          : 'The outcome of a delivery could not be written in time. It will be tried again.',
      );
      const held = this.#queue.filter(isAt([endpoint], true));
      for (const waiting of held) waiting.isSuspect = true;
      this.#hold(held, (performance.now() - startedAt) * TIMED_OUT_PAUSE);
      return;
    }
    // This outcome can never be written: the lease of its delivery ends, and the delivery is sent again.
    this.#options.log.error(
      { err: error, deliveryId },
      'The outcome of a delivery was dropped. The delivery will be sent again.',
    );
    this.#settle([first]);
  }
}

/** A delivery of which no shard was read is in one of those with others. */
function shardOf({ outcome }: Waiting): number {
  return outcome.claim.shard ?? 0;
}

function auditDisabled(log: Log, { projectId, endpointId, monitor }: DisabledEndpoint): void {
  const object = monitor
    ? boundMonitor(monitor, endpointId)
    : ({ kind: 'endpoint', id: endpointId, projectId } as const);
  writeAudit(log, { actor: SYSTEM_ACTOR, action: 'endpoint.disable', object });
}
