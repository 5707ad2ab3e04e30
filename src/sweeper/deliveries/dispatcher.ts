// Sends what is in the outbox: claims due deliveries under a lease, as many as each receiver takes, and hands what
// became of them to the outcome writer. Any number of dispatchers share the rows.
import { randomUUID } from 'node:crypto';
import { EndpointGate, type Passage } from '../../delivery/endpoint-gate.ts';
import { Senders } from '../../delivery/senders.ts';
import type { DestinationDeps } from '../../delivery/webhook/destination.ts';
import type { EndpointRef } from '../../store/callbacks/callback-endpoints.ts';
import {
  type ClaimedDelivery,
  claimDeliveries,
  findDueEndpoints,
  releaseLeases,
} from '../../store/deliveries/delivery-queue.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import type { Log } from '../../telemetry/log.ts';
import { type Loop, type RunResult, startSweepLoop } from '../loop.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import type { DeliveryOutcome } from './delivery-outcome.ts';
import { OutcomeWriter, type WrittenOutcome } from './outcome-writer.ts';

export interface DispatcherOptions {
  pool: Pool;
  secrets: SecretBox;
  destinations: DestinationDeps;
  metrics: SweeperMetrics;
  log: Log;
  pollMs?: number;
  /** For one attempt with everything; default 10 s. */
  attemptTimeoutMs?: number;
}

const POLL_MS = 150;
/** Endpoints that one look finds. */
const MAX_ENDPOINTS = 10_000;
/** A look costs a probe of the index for each endpoint that waits for anything: it serves three times as long as it took. */
const LOOK_SERVES = 3;
/** But not for longer, on a machine of any pace: what another process put into the outbox waits for the next look. */
const LOOK_SERVES_MS = 250;
/** Outcomes that wait for the database; more is not begun meanwhile. A crash sends again what they stand for. */
const MAX_WAITING = 512;
/** An endpoint whose deliveries all wait for others is asked less often; a retry of one of those is late by as much. */
const HUSH_MS = { first: 250, most: 500 };

interface Look {
  due: readonly EndpointRef[];
  /** Where the one after it begins, when there was more than one look finds. */
  next?: EndpointRef;
  untilAt: number;
  /** Endpoints that a claim found something at since. */
  served: Set<string>;
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #owner = randomUUID();
  readonly #gate = new EndpointGate();
  readonly #senders: Senders;
  readonly #writer: OutcomeWriter;
  readonly #loop: Loop;
  readonly #inFlight = new Set<Promise<void>>();
  /** Attempts that began here and are not written: one may outlast its lease while the database is away. */
  readonly #unwritten = new Set<string>();
  /** Endpoints that answered 410, until that is written: nothing more may go out to them. */
  readonly #gone = new Set<string>();
  /** What was in the boxes of claims that are under way. */
  readonly #opened = new WeakMap<Buffer, string>();
  /** Endpoints at which a claim found nothing. */
  #hushed = new Map<string, { untilAt: number; pauseMs: number }>();
  /** The last round found something, or had no room for what there was: a free place is worth another. */
  #hasMore = false;
  /** The endpoint that the last round ended at for want of room: the next one begins behind it. */
  #after: string | undefined;
  /** The last look at the outbox. */
  #look: Look = { due: [], untilAt: 0, served: new Set() };

  /** Begins at once. */
  constructor(options: DispatcherOptions) {
    const { pool, log, metrics } = options;
    this.#options = options;
    this.#senders = new Senders({ ...options.destinations, timeoutMs: options.attemptTimeoutMs });
    this.#writer = new OutcomeWriter({
      pool,
      owner: this.#owner,
      log,
      onWritten: (written) => this.#afterWrite(written),
    });
    this.#loop = startSweepLoop({
      name: 'deliveries',
      intervalMs: options.pollMs ?? POLL_MS,
      run: () => this.#round(),
      metrics,
      log,
    });
  }

  /** Something was put into the outbox, for whomever: also for those whose deliveries all waited. */
  wake(): void {
    this.#hushed = new Map();
    this.#look = { ...this.#look, untilAt: 0 };
    this.#loop.wake();
  }

  /** Begins no more, lets attempts end (they have their 10 s), writes what came of them, gives leases back. */
  async stop(): Promise<void> {
    await this.#loop.stop();
    await Promise.all(this.#inFlight);
    const left = await this.#writer.stop();
    await releaseLeases(this.#options.pool, this.#owner, left).catch((err: unknown) =>
      this.#options.log.warn({ err }, 'Leases could not be given back: they end by themselves.'),
    );
    await this.#senders.close();
  }

  async #round(): Promise<RunResult> {
    const { pool } = this.#options;
    if (this.#gate.free === 0 || this.#writer.waiting >= MAX_WAITING) return 'idle';
    const due = await this.#findDue();
    if (this.#loop.isStopped) return 'idle';
    const { wanted, after } = this.#choose(due);
    this.#after = after;
    const claims = wanted.length === 0 ? [] : await claimDeliveries(pool, this.#owner, wanted);
    this.#hasMore = claims.length > 0 || (due.length > 0 && wanted.length === 0);
    this.#hush(wanted, claims);
    // What is sent already has its lease renewed by the claim: what became of it is written in a moment.
    const unsent = claims.filter((claim) => !this.#unwritten.has(attemptKeyOf(claim)));
    const refused = unsent.filter((claim) => this.#loop.isStopped || !this.#begin(claim));
    await releaseLeases(pool, this.#owner, refused);
    return unsent.length > refused.length || after !== undefined ? 'more' : 'idle';
  }

  /** What the last look found, while it serves; what was taken since is found again, and claimed by nobody twice. */
  async #findDue(): Promise<readonly EndpointRef[]> {
    const startedAt = performance.now();
    const before = this.#look;
    if (startedAt < before.untilAt) return before.due;
    const due = await findDueEndpoints(this.#options.pool, { after: before.next, limit: MAX_ENDPOINTS });
    const endedAt = performance.now();
    const servesMs = Math.min((endedAt - startedAt) * LOOK_SERVES, LOOK_SERVES_MS);
    this.#look = {
      due,
      next: due.length === MAX_ENDPOINTS ? due.at(-1) : undefined,
      // Woken meanwhile: it may have come too early for what is new.
      untilAt: this.#look === before ? endedAt + servesMs : endedAt,
      served: new Set(),
    };
    return due;
  }

  /**
   * As many as each receiver takes now, from the endpoint on at which the last round ended; `after` is set when there
   * was no room for those behind it.
   */
  #choose(due: readonly EndpointRef[]): {
    wanted: (EndpointRef & { places: number })[];
    after?: string;
  } {
    const now = performance.now();
    const wanted: (EndpointRef & { places: number })[] = [];
    const last = this.#after;
    const first =
      last === undefined
        ? 0
        : Math.max(
            0,
            due.findIndex((ref) => keyOf(ref) > last),
          );
    let free = this.#gate.free;
    for (const ref of [...due.slice(first), ...due.slice(0, first)]) {
      const key = keyOf(ref);
      if (this.#gone.has(key) || (this.#hushed.get(key)?.untilAt ?? 0) > now) continue;
      const places = Math.min(this.#gate.placesFor(key, now), free);
      if (places === 0) continue;
      wanted.push({ ...ref, places });
      free -= places;
      if (free === 0) return { wanted, after: key };
    }
    return { wanted };
  }

  #hush(wanted: readonly EndpointRef[], claims: readonly ClaimedDelivery[]): void {
    const now = performance.now();
    if (this.#hushed.size > MAX_ENDPOINTS) this.#hushed = new Map();
    const { served, untilAt } = this.#look;
    const fruitful = new Set(claims.map(({ endpoint }) => keyOf(endpoint)));
    for (const key of fruitful) {
      this.#hushed.delete(key);
      served.add(key);
    }
    for (const ref of wanted) {
      const key = keyOf(ref);
      if (fruitful.has(key)) continue;
      // It has nothing left of what the look saw: the next one tells.
      if (served.has(key)) {
        this.#hushed.set(key, { untilAt, pauseMs: 0 });
        continue;
      }
      const before = this.#hushed.get(key)?.pauseMs ?? 0;
      const pauseMs = Math.min(Math.max(before * 2, HUSH_MS.first), HUSH_MS.most);
      this.#hushed.set(key, { untilAt: now + pauseMs, pauseMs });
    }
  }

  /** False when there is no place for it after all. */
  #begin(claim: ClaimedDelivery): boolean {
    const reason = claim.isRemoved
      ? 'endpoint_removed'
      : claim.lifecycle === 'active'
        ? undefined
        : 'endpoint_disabled';
    if (reason) {
      this.#writer.add({ claim, kind: 'canceled', reason }, () => undefined);
      return true;
    }
    const key = keyOf(claim.endpoint);
    if (this.#gone.has(key)) return false;
    const passage = this.#gate.enter(key, performance.now());
    if (passage.state !== 'entered') return false;
    const attemptKey = attemptKeyOf(claim);
    this.#unwritten.add(attemptKey);
    const attempt = this.#send(claim).then((outcome) => {
      this.#leave(passage, outcome);
      const isGone = outcome.kind === 'sent' && outcome.result.gone;
      if (isGone) this.#gone.add(key);
      this.#writer.add(outcome, () => {
        this.#unwritten.delete(attemptKey);
        if (isGone) this.#gone.delete(key);
      });
      this.#inFlight.delete(attempt);
      if (this.#hasMore) this.#loop.wake();
    });
    this.#inFlight.add(attempt);
    this.#options.metrics.deliveriesInFlight.set(this.#gate.inFlight);
    return true;
  }

  #leave(passage: Passage, outcome: DeliveryOutcome): void {
    if (outcome.kind === 'sent') passage.leave({ failed: !outcome.result.delivered }, performance.now());
    else passage.cancel();
    this.#options.metrics.deliveriesInFlight.set(this.#gate.inFlight);
  }

  /** Never rejects: what is not the receiver's fault is postponed. */
  async #send(claim: ClaimedDelivery): Promise<DeliveryOutcome> {
    const { log, metrics } = this.#options;
    const { endpointId } = claim.endpoint;
    const startedAt = performance.now();
    try {
      if (!claim.urlBox) throw new Error('The endpoint has no address.');
      const result = await this.#senders.of(claim).send({
        url: this.#open(claim.urlBox, endpointId),
        webhookId: claim.webhookId,
        body: claim.body,
        secrets: claim.secretBoxes.map((box) => this.#open(box, endpointId)),
      });
      metrics.attemptDuration.observe(result.latencyMs / 1000);
      return { claim, kind: 'sent', result, startedAt, finishedAt: performance.now() };
    } catch (err) {
      log.error({ err, deliveryId: claim.deliveryId, endpointId }, 'A delivery could not be attempted.');
      return { claim, kind: 'postponed' };
    }
  }

  /** Once for all deliveries of one claim to the endpoint: they share their boxes. */
  #open(box: Buffer, endpointId: string): string {
    const known = this.#opened.get(box);
    if (known !== undefined) return known;
    const text = this.#options.secrets.open(box, endpointId);
    this.#opened.set(box, text);
    return text;
  }

  #afterWrite(written: WrittenOutcome[]): void {
    const { metrics } = this.#options;
    for (const { outcome, state, endedMs } of written) {
      const { attemptCount, createdMs } = outcome.claim;
      metrics.deliveries.inc({ outcome: outcome.kind === 'postponed' ? 'postponed' : state });
      if (state === 'delivered' && attemptCount === 0 && endedMs !== undefined) {
        metrics.deliveryLatency.observe(Math.max(0, endedMs - createdMs) / 1000);
      }
      // What comes after it in its incident may go now.
      this.#hushed.delete(keyOf(outcome.claim.endpoint));
    }
    this.#loop.wake();
  }
}

function keyOf({ projectId, endpointId }: EndpointRef): string {
  return `${projectId} ${endpointId}`;
}

function attemptKeyOf({ projectId, deliveryId, attemptCount }: ClaimedDelivery): string {
  return `${projectId} ${deliveryId} ${attemptCount}`;
}
