// Sends what is in the outbox: polls for due deliveries, claims as many under a lease as each project has places for and
// each receiver takes, and hands the outcomes to the outcome writer. Any number of dispatchers share the rows.
import { randomUUID } from 'node:crypto';
import {
  type Claim,
  type ClaimedDelivery,
  claimDeliveries,
  releaseLeases,
  type WantedDeliveries,
} from '../../store/deliveries/delivery-queue.ts';
import { type DueQueue, findDueQueues, queueKeyOf } from '../../store/deliveries/due-queues.ts';
import { codeOf, SQLSTATE } from '../../store/postgres/database-error.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { type Loop, type RunResult, startSweepLoop } from '../loop.ts';
import { Attempts, type AttemptsOptions } from './attempts.ts';
import { ClaimParts } from './claim-parts.ts';
import { DueQueues, endpointKeyOf, MAX_POLLED } from './due-queues.ts';
import { OutcomeWriter, type WrittenOutcome } from './outcome-writer.ts';
import { type Chosen, Turns } from './turns.ts';

export interface DispatcherOptions extends Omit<AttemptsOptions, 'onEnd' | 'onGiveBack'> {
  pool: Pool;
  pollMs?: number;
}

const POLL_MS = 150;
/** While this many outcomes wait for the database no attempt begins: after a crash, their deliveries are sent again. */
const MAX_WAITING = 512;
/** What is claimed ahead, over all queues: a place of a queue that may be sent at once comes first. */
const MAX_AHEAD = 256;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #owner = randomUUID();
  readonly #attempts: Attempts;
  readonly #writer: OutcomeWriter;
  readonly #loop: Loop;
  readonly #due = new DueQueues();
  /** The last run found something, or had no room for what was due: when a place is free, another run is worth it. */
  #hasMore = false;
  /** What is claimed ahead for one endpoint: an equal part for each queue in which something is due. */
  #mostAhead = 0;
  readonly #turns = new Turns();
  readonly #parts = new ClaimParts();
  /** When everything is released that was given back. */
  #released: Promise<void> = Promise.resolve();

  /** Starts at once. */
  constructor(options: DispatcherOptions) {
    const { pool, secrets, log, metrics } = options;
    this.#options = options;
    this.#attempts = new Attempts({
      ...options,
      onEnd: (outcome, settle) => {
        this.#writer.add(outcome, settle);
        if (this.#hasMore && this.#placesFor(endpointKeyOf(outcome.claim.endpoint)) > 0) this.#loop.wake();
      },
      onGiveBack: (claims) => {
        this.#released = this.#released.then(() => this.#release(claims));
      },
    });
    this.#writer = new OutcomeWriter({
      pool,
      secrets,
      owner: this.#owner,
      log,
      onWritten: (written) => this.#afterWrite(written),
    });
    this.#loop = startSweepLoop({
      name: 'deliveries',
      intervalMs: options.pollMs ?? POLL_MS,
      run: () => this.#run(),
      metrics,
      log,
    });
  }

  /** A delivery was added to the outbox. */
  wake(): void {
    this.#due.recordAdded(performance.now());
    this.#loop.wake();
  }

  /** Begins no attempt, lets those under way end (within 10 s), writes their outcomes, and gives the leases back. */
  async stop(): Promise<void> {
    const lastRun = this.#loop.stop();
    this.#attempts.giveBackHeld();
    await lastRun;
    await this.#attempts.settled();
    await this.#released;
    await this.#release(await this.#writer.stop());
    await this.#attempts.close();
  }

  async #run(): Promise<RunResult> {
    if (this.#attempts.free === 0 || this.#writer.waiting >= MAX_WAITING) return 'idle';
    const due = await this.#findDue();
    if (this.#loop.isStopped) return 'idle';
    const { wanted, isCut } = this.#choose(due);
    const parts = this.#parts.partsOf(wanted);
    let isLeft = isCut || parts.flat().length < wanted.length;
    let begun = 0;
    for (const part of parts) {
      const claim = await this.#claim(part);
      isLeft ||= claim.passed.length > 0;
      begun += await this.#beginAll(claim.deliveries);
      this.#hasMore = isLeft || claim.deliveries.length > 0;
    }
    if (parts.length === 0) this.#hasMore = due.length > 0;
    return begun > 0 || isLeft ? 'more' : 'idle';
  }

  async #claim(part: readonly WantedDeliveries[]): Promise<Claim> {
    try {
      const claim = await claimDeliveries(this.#options.pool, this.#owner, part);
      this.#parts.recordSuccess(part);
      this.#recordClaim(part, claim);
      return claim;
    } catch (error) {
      if (codeOf(error) === SQLSTATE.queryCanceled) this.#parts.recordFailure(part, performance.now());
      throw error;
    }
  }

  /** Returns how many began. */
  async #beginAll(deliveries: readonly ClaimedDelivery[]): Promise<number> {
    // The claim renews the lease of a delivery that was sent already: its outcome is written in a moment.
    const unsent = deliveries.filter((delivery) => !this.#attempts.isUnwritten(delivery));
    const refused = unsent.filter((delivery) => this.#loop.isStopped || !this.#begin(delivery));
    await releaseLeases(this.#options.pool, this.#owner, refused);
    return unsent.length - refused.length;
  }

  /** Never rejects. */
  async #release(claims: readonly ClaimedDelivery[]): Promise<void> {
    await releaseLeases(this.#options.pool, this.#owner, claims).catch((err: unknown) =>
      this.#options.log.warn({ err }, 'Leases could not be given back. They end by themselves.'),
    );
  }

  /** What the last polls found, while it serves. A delivery that was taken since is found again, and claimed once. */
  async #findDue(): Promise<readonly DueQueue[]> {
    const startedAt = performance.now();
    const fresh = this.#due.fresh(startedAt);
    if (fresh) return fresh;
    const span = this.#due.beginPoll(startedAt);
    const found = await findDueQueues(this.#options.pool, { ...span, limit: MAX_POLLED });
    return this.#due.recordPoll(found, performance.now());
  }

  /** As many deliveries as each project's share has room for, and each receiver takes now. */
  #choose(due: readonly DueQueue[]): Chosen {
    const now = performance.now();
    const attempts = this.#attempts;
    this.#mostAhead = Math.floor(MAX_AHEAD / Math.max(due.length, 1));
    return this.#turns.choose(due, {
      free: attempts.free,
      kept: attempts.kept,
      heldBy: (projectId) => attempts.heldBy(projectId),
      placesFor: (endpoint) => this.#placesFor(endpoint, now),
      isPaused: ({ key, ref }) => this.#due.isPaused(key, now) || this.#parts.isPaused(ref.projectId, now),
    });
  }

  #placesFor(endpoint: string, now = performance.now()): number {
    return this.#attempts.placesFor(endpoint, now, this.#mostAhead);
  }

  #recordClaim(wanted: readonly WantedDeliveries[], { deliveries, passed }: Claim): void {
    const found = new Set([...deliveries, ...passed].map(queueKeyOf));
    this.#due.recordClaim(wanted.map(queueKeyOf), found, performance.now());
  }

  /** False when there is no place for it after all. */
  #begin(claim: ClaimedDelivery): boolean {
    const { cancelReason: reason } = claim;
    if (reason === undefined) return this.#attempts.begin(claim);
    this.#writer.add({ claim, kind: 'canceled', reason }, () => undefined);
    return true;
  }

  #afterWrite(written: WrittenOutcome[]): void {
    const { metrics } = this.#options;
    for (const { outcome, state, endedMs } of written) {
      const { attemptCount, createdMs, event } = outcome.claim;
      metrics.deliveries.inc({ outcome: outcome.kind === 'postponed' ? 'postponed' : state });
      // A test has one attempt, and whoever asked for it sees the result.
      if (state === 'exhausted' && event !== 'callback.test') metrics.deliveriesLost.inc();
      if (state === 'delivered' && attemptCount === 0 && endedMs !== undefined) {
        metrics.deliveryLatency.observe(Math.max(0, endedMs - createdMs) / 1000);
      }
      this.#due.resume(queueKeyOf(outcome.claim));
    }
    this.#loop.wake();
  }
}
