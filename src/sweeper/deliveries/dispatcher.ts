// Sends what is in the outbox: polls for due deliveries, claims as many under a lease as each project has places for and
// each receiver takes, and hands the outcomes to the outcome writer. Any number of dispatchers share the rows.
import { randomUUID } from 'node:crypto';
import {
  type Claim,
  type ClaimedDelivery,
  claimDeliveries,
  splitByShard,
  type WantedDeliveries,
} from '../../store/deliveries/delivery-queue.ts';
import { type DueQueue, findDueQueues, queueKeyOf } from '../../store/deliveries/due-queues.ts';
import { codeOf, SQLSTATE } from '../../store/postgres/database-error.ts';
import { isDistributed } from '../../store/postgres/engine.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { endsWithin } from '../ends-within.ts';
import { type Loop, type RunResult, startSweepLoop } from '../loop.ts';
import { Attempts, type AttemptsOptions } from './attempts.ts';
import { ClaimParts } from './claim-parts.ts';
import { DueQueues, endpointKeyOf, MAX_POLLED } from './due-queues.ts';
import { LeaseReturns } from './lease-returns.ts';
import { OutcomeWriter } from './outcome-writer.ts';
import { type Chosen, Turns } from './turns.ts';
import type { WrittenOutcome } from './write-outcomes.ts';

export interface DispatcherOptions extends Omit<AttemptsOptions, 'onEnd' | 'onGiveBack'> {
  pool: Pool;
  pollMs?: number;
}

const POLL_MS = 150;
/** While this many outcomes wait for the database no attempt begins: after a crash, their deliveries are sent again. */
const MAX_WAITING = 512;
/** How long a dispatcher that stops waits for a claim under way, to give it back. */
const LAST_RUN_MS = 2_000;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #owner = randomUUID();
  readonly #attempts: Attempts;
  readonly #writer: OutcomeWriter;
  readonly #returns: LeaseReturns;
  readonly #loop: Loop;
  readonly #due = new DueQueues();
  /** The last run found something, or had no room for what was due: when a place is free, another run is worth it. */
  #hasMore = false;
  readonly #turns = new Turns();
  readonly #parts = new ClaimParts();

  /** Starts at once. */
  constructor(options: DispatcherOptions) {
    const { pool, secrets, log, metrics } = options;
    this.#options = options;
    this.#attempts = new Attempts({
      ...options,
      onEnd: (outcome, settle) => {
        this.#writer.add(outcome, settle);
        if (this.#hasMore && this.#hasRoom(endpointKeyOf(outcome.claim.endpoint))) this.#loop.wake();
      },
      onGiveBack: (claims) => this.#returns.add(claims),
    });
    this.#writer = new OutcomeWriter({
      pool,
      secrets,
      owner: this.#owner,
      log,
      onWritten: (written) => this.#afterWrite(written),
    });
    this.#returns = new LeaseReturns({ pool, owner: this.#owner, log });
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

  /**
   * Begins no attempt, lets those under way end (within 10 s), writes their outcomes, and gives the leases back. Takes 20 s
   * at most, whatever the database does: leases that are left end by themselves.
   */
  async stop(): Promise<void> {
    const lastRun = this.#loop.stop();
    this.#attempts.giveBackHeld();
    await this.#attempts.settled();
    await endsWithin(lastRun, LAST_RUN_MS);
    this.#returns.add(await this.#writer.stop());
    await this.#returns.stop();
    await this.#attempts.close();
  }

  async #run(): Promise<RunResult> {
    if (this.#attempts.free === 0 || this.#writer.waiting >= MAX_WAITING) return 'idle';
    const due = await this.#findDue();
    if (this.#loop.isStopped) return 'idle';
    const { wanted, isCut } = this.#choose(due);
    const parts = this.#parts.partsOf(wanted);
    let isLeft = isCut || parts.flat().length < wanted.length;
    const errors: unknown[] = [];
    for (const part of parts) {
      if (this.#loop.isStopped) break;
      isLeft = (await this.#claimAndBegin(part, errors)) || isLeft;
      // What failed in one shard may succeed in others.
      if (errors.length > 0 && !isDistributed()) break;
      this.#hasMore = isLeft;
    }
    if (errors.length > 0) throw errors[0];
    if (parts.length === 0) this.#hasMore = due.length > 0;
    return isLeft ? 'more' : 'idle';
  }

  /**
   * True: there may be more in some of these queues. What is claimed in one shard begins before the next claim. Adds the error
   * of a shard to `errors`, and goes on with the next one.
   */
  async #claimAndBegin(part: readonly WantedDeliveries[], errors: unknown[]): Promise<boolean> {
    let hasMore = false;
    for (const wanted of await splitByShard(this.#options.pool, part)) {
      if (this.#loop.isStopped) break;
      try {
        const claim = await this.#claim(wanted);
        hasMore = this.#recordClaim(wanted, claim) || hasMore;
        this.#beginAll(claim.deliveries);
      } catch (error) {
        errors.push(error);
      }
    }
    return hasMore;
  }

  async #claim(part: readonly WantedDeliveries[]): Promise<Claim> {
    const { pool } = this.#options;
    try {
      const claim = isDistributed()
        ? await inTransaction(pool, (tx) => claimDeliveries(tx, this.#owner, part))
        : await claimDeliveries(pool, this.#owner, part);
      this.#parts.recordSuccess(part);
      return claim;
    } catch (error) {
      if (codeOf(error) === SQLSTATE.queryCanceled) this.#parts.recordFailure(part, performance.now());
      throw error;
    }
  }

  #beginAll(deliveries: readonly ClaimedDelivery[]): void {
    // The claim renews the lease of a delivery that was sent already: its outcome is written in a moment.
    const unsent = deliveries.filter((delivery) => !this.#attempts.isUnwritten(delivery));
    const refused = unsent.filter((delivery) => this.#loop.isStopped || !this.#begin(delivery));
    this.#returns.add(refused);
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
    return this.#turns.choose(due, {
      free: attempts.free,
      kept: attempts.kept,
      heldBy: (projectId) => attempts.heldBy(projectId),
      placesFor: (endpoint) => attempts.placesFor(endpoint, now),
      aheadFor: (endpoint) => attempts.aheadFor(endpoint),
      aheadOf: ({ endpoint, ref }) => attempts.aheadAt(endpoint, ref.projectId),
      isPaused: ({ key, ref }) => this.#due.isPaused(key, now) || this.#parts.isPaused(ref.projectId, now),
    });
  }

  /** Another claim is worth it: an attempt may begin at the endpoint, or half of what was claimed ahead has begun. */
  #hasRoom(endpoint: string): boolean {
    const ahead = Math.min(this.#turns.mostAhead, this.#attempts.aheadFor(endpoint));
    if (ahead > 0 && this.#attempts.aheadAt(endpoint) <= ahead / 2) return true;
    return this.#attempts.placesFor(endpoint, performance.now()) > 0;
  }

  /** A queue that had less than it was asked for has nothing more that may go out. True: another one may have. */
  #recordClaim(wanted: readonly WantedDeliveries[], { deliveries, passed }: Claim): boolean {
    const counts = new Map<string, number>();
    for (const key of deliveries.map(queueKeyOf)) counts.set(key, (counts.get(key) ?? 0) + 1);
    const full = wanted.filter((one) => (counts.get(queueKeyOf(one)) ?? 0) >= one.places);
    const asked = wanted.map(queueKeyOf);
    const left = new Set([...full, ...passed].map(queueKeyOf));
    this.#due.recordClaim({ asked, found: new Set(counts.keys()), left }, performance.now());
    return left.size > 0;
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
      const { attemptCount, createdMs, event, kind } = outcome.claim;
      metrics.deliveries.inc({ outcome: outcome.kind === 'postponed' ? 'postponed' : state });
      // A test has one attempt, and whoever asked for it sees the result.
      if (state === 'exhausted' && event !== 'callback.test') metrics.deliveriesLost.inc();
      // A relay may refuse for hours before what counts as the first attempt.
      if (state === 'delivered' && kind === 'webhook' && attemptCount === 0 && endedMs !== undefined) {
        metrics.deliveryLatency.observe(Math.max(0, endedMs - createdMs) / 1000);
      }
      this.#due.resume(queueKeyOf(outcome.claim));
    }
    this.#loop.wake();
  }
}
