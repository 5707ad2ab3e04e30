// The attempts that are under way in this process: gives each project its share of them and each endpoint as many as it
// takes, opens its secrets, sends, and hands on the outcomes. It reads and writes no database.
import { EndpointGate, type Passage } from '../../delivery/endpoint-gate.ts';
import { Senders } from '../../delivery/senders.ts';
import type { DestinationDeps } from '../../delivery/webhook/destination.ts';
import { Shares } from '../../domain/shares.ts';
import { secretPlace, urlPlace } from '../../service/callbacks/endpoint-seal.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import type { Log } from '../../telemetry/log.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import type { DeliveryOutcome } from './delivery-outcome.ts';
import { endpointKeyOf } from './due-queues.ts';

export interface AttemptsOptions {
  secrets: SecretBox;
  destinations: DestinationDeps;
  metrics: SweeperMetrics;
  log: Log;
  /** For one attempt with everything; default 10 s. */
  attemptTimeoutMs?: number;
  /** Called when an attempt has ended. Call `settle` when the outcome is written, or can't be. */
  onEnd: (outcome: DeliveryOutcome, settle: () => void) => void;
}

/** Attempts of this process whose outcome is not written yet, over all projects. */
const MAX_ATTEMPTS = 576;
/** Of those, for projects with fewer than two. */
const KEPT_ATTEMPTS = 64;

export class Attempts {
  readonly #options: AttemptsOptions;
  /**
   * Of the projects of the monitors (docs/contract/callbacks.md). An attempt holds its place until its outcome is
   * written: one project whose receivers answer at once can't fill the queue of the writer either.
   */
  readonly #shares = new Shares(MAX_ATTEMPTS, KEPT_ATTEMPTS);
  readonly #gate = new EndpointGate();
  readonly #senders: Senders;
  readonly #open: (box: Buffer, place: string) => string;
  readonly #inFlight = new Set<Promise<void>>();
  /** Attempts whose outcome is not written yet: one may outlast its lease while the database is away. */
  readonly #unwritten = new Set<string>();
  /** Endpoints that answered 410, until that is written: nothing more may go out to them. */
  readonly #gone = new Set<string>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
    this.#senders = new Senders({ ...options.destinations, timeoutMs: options.attemptTimeoutMs });
    this.#open = openOnce(options.secrets);
  }

  /** Attempts that may begin now, over all projects. */
  get free(): number {
    return this.#shares.free;
  }

  get kept(): number {
    return this.#shares.kept;
  }

  heldBy(projectId: string): number {
    return this.#shares.heldBy(projectId);
  }

  /** How many attempts to the endpoint (by its key) may begin now. */
  placesFor(endpoint: string, now: number): number {
    return this.#gone.has(endpoint) ? 0 : this.#gate.placesFor(endpoint, now);
  }

  /** This attempt began here, and its outcome is not written. */
  isUnwritten(claim: ClaimedDelivery): boolean {
    return this.#unwritten.has(attemptKeyOf(claim));
  }

  /** False when there is no place for the attempt after all. */
  begin(claim: ClaimedDelivery): boolean {
    const { projectId } = claim;
    const endpoint = endpointKeyOf(claim.endpoint);
    if (this.#gone.has(endpoint) || this.#shares.roomFor(projectId) === 0) return false;
    const passage = this.#gate.enter(endpoint, performance.now());
    if (passage.state !== 'entered') return false;
    this.#shares.take(projectId);
    this.#unwritten.add(attemptKeyOf(claim));
    const attempt = this.#send(claim).then((outcome) => {
      this.#inFlight.delete(attempt);
      this.#leave(passage, outcome);
      this.#end(outcome);
    });
    this.#inFlight.add(attempt);
    this.#options.metrics.deliveriesInFlight.set(this.#inFlight.size);
    return true;
  }

  /** Resolves when all attempts under way have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  async close(): Promise<void> {
    await this.#senders.close();
  }

  #leave(passage: Passage, outcome: DeliveryOutcome): void {
    if (outcome.kind === 'sent') passage.leave({ failed: !outcome.result.delivered }, performance.now());
    else passage.cancel();
    this.#options.metrics.deliveriesInFlight.set(this.#inFlight.size);
  }

  #end(outcome: DeliveryOutcome): void {
    const { claim } = outcome;
    const endpoint = endpointKeyOf(claim.endpoint);
    const isGone = outcome.kind === 'sent' && outcome.result.gone;
    if (isGone) this.#gone.add(endpoint);
    this.#options.onEnd(outcome, () => {
      this.#shares.giveBack(claim.projectId);
      this.#unwritten.delete(attemptKeyOf(claim));
      if (isGone) this.#gone.delete(endpoint);
    });
  }

  /** Never rejects: an internal fault postpones the delivery. */
  async #send(claim: ClaimedDelivery): Promise<DeliveryOutcome> {
    const { log, metrics } = this.#options;
    const { endpoint } = claim;
    const startedAt = performance.now();
    try {
      if (!claim.urlBox) throw new Error('The endpoint has no address.');
      const result = await this.#senders.of(claim).send({
        url: this.#open(claim.urlBox, urlPlace(endpoint)),
        webhookId: claim.webhookId,
        body: claim.body,
        secrets: claim.secretBoxes.map((box) => this.#open(box, secretPlace(endpoint))),
      });
      metrics.attemptDuration.observe(result.latencyMs / 1000);
      return { claim, kind: 'sent', result, startedAt, finishedAt: performance.now() };
    } catch (err) {
      log.error(
        { err, deliveryId: claim.deliveryId, endpointId: endpoint.endpointId },
        'A delivery could not be attempted. It will be tried again in a minute.',
      );
      return { claim, kind: 'postponed' };
    }
  }
}

/** All deliveries to an endpoint of one claim share their boxes: each box is opened once. */
function openOnce(secrets: SecretBox): (box: Buffer, place: string) => string {
  const opened = new WeakMap<Buffer, string>();
  return (box, place) => {
    const known = opened.get(box);
    if (known !== undefined) return known;
    const text = secrets.open(box, place);
    opened.set(box, text);
    return text;
  };
}

function attemptKeyOf({ projectId, deliveryId, attemptCount }: ClaimedDelivery): string {
  return `${projectId} ${deliveryId} ${attemptCount}`;
}
