// The attempts that are under way in this process: gives each project its share of them and each endpoint as many as it
// takes, holds what is claimed ahead for it, opens its secrets, sends, and hands on the outcomes. It reads and writes no
// database.
import { EndpointGate, type Passage } from '../../delivery/endpoint-gate.ts';
import type { Relay } from '../../delivery/relay/relay.ts';
import { Senders } from '../../delivery/senders.ts';
import type { DestinationDeps } from '../../delivery/webhook/destination.ts';
import { Shares } from '../../domain/shares.ts';
import { addressPlace, secretPlace } from '../../service/callbacks/endpoint-seal.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import type { Log } from '../../telemetry/log.ts';
import { OccasionalWarning } from '../../telemetry/occasional-warning.ts';
import type { SweeperMetrics } from '../sweeper-metrics.ts';
import { type DeliveryOutcome, FAULT_MS, outcomeOf } from './delivery-outcome.ts';
import { endpointKeyOf } from './due-queues.ts';
import { HeldClaims } from './held-claims.ts';

export interface AttemptsOptions {
  secrets: SecretBox;
  destinations: DestinationDeps;
  relay?: Relay;
  metrics: SweeperMetrics;
  log: Log;
  /** For one attempt with everything; default 10 s. */
  attemptTimeoutMs?: number;
  /** Called when an attempt has ended. Call `settle` when the outcome is written, or can't be. */
  onEnd: (outcome: DeliveryOutcome, settle: () => void) => void;
  /** Called with what was held and is not sent: its leases are to be released. */
  onGiveBack: (claims: ClaimedDelivery[]) => void;
}

/** Attempts of this process whose outcome is not written yet, over all projects. */
const MAX_ATTEMPTS = 576;
/** Of those, for projects with fewer than two. */
const KEPT_ATTEMPTS = 64;
/**
 * What waits here for a place is sent within this time or given back: it was claimed before its endpoint was disabled, or its
 * address or secret changed (docs/contract/callbacks.md). After a crash it waits for the end of its lease.
 */
const HOLD_MS = 500;

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
  /** They have places of their projects, so that a project with much to send leaves room for others. */
  readonly #held = new HeldClaims();
  #holdTimer: NodeJS.Timeout | undefined;
  /** Attempts whose outcome is not written yet: one may outlast its lease while the database is away. */
  readonly #unwritten = new Set<string>();
  /** Endpoints that answered 410, until that is written: nothing more may go out to them. */
  readonly #gone = new Set<string>();

  readonly #refused: OccasionalWarning;

  constructor(options: AttemptsOptions) {
    this.#options = options;
    this.#refused = new OccasionalWarning(options.log, 'The relay takes no more messages for now (429).');
    const { destinations, relay, attemptTimeoutMs: timeoutMs } = options;
    this.#senders = new Senders({ ...destinations, relay, timeoutMs });
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

  /** How many attempts may begin now at the endpoint (by its key). */
  placesFor(endpoint: string, now: number): number {
    return this.#gone.has(endpoint) ? 0 : this.#gate.placesFor(endpoint, now);
  }

  /** How many deliveries to the endpoint beyond those are worth a claim, since it will take them in a moment. */
  aheadFor(endpoint: string): number {
    return this.#gone.has(endpoint) ? 0 : this.#gate.aheadFor(endpoint);
  }

  /** Deliveries that are held for the endpoint, of one project or of all. */
  aheadAt(endpoint: string, projectId?: string): number {
    return this.#held.countAt(endpoint, projectId);
  }

  /** This attempt began here, and its outcome is not written. */
  isUnwritten(claim: ClaimedDelivery): boolean {
    return this.#unwritten.has(attemptKeyOf(claim));
  }

  /** Sends it, or holds it for the next place. False when there is no place for it after all. */
  begin(claim: ClaimedDelivery): boolean {
    const { projectId } = claim;
    const endpoint = endpointKeyOf(claim.endpoint);
    if (this.#gone.has(endpoint) || this.#shares.roomFor(projectId) === 0) return false;
    const now = performance.now();
    const passage = this.#gate.enter(endpoint, now);
    if (passage.state === 'entered') this.#start(claim, passage);
    else if (this.#held.countAt(endpoint, projectId) < this.#gate.aheadFor(endpoint)) this.#hold(claim, now);
    else return false;
    this.#shares.take(projectId);
    this.#unwritten.add(attemptKeyOf(claim));
    return true;
  }

  /** Holds nothing any more. */
  giveBackHeld(): void {
    clearTimeout(this.#holdTimer);
    this.#giveBack(this.#held.takeOlder(Number.POSITIVE_INFINITY));
  }

  /** Resolves when all attempts under way have ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#inFlight);
  }

  async close(): Promise<void> {
    await this.#senders.close();
  }

  #start(claim: ClaimedDelivery, passage: Passage): void {
    const attempt = this.#send(claim).then((outcome) => {
      this.#inFlight.delete(attempt);
      this.#leave(passage, outcome);
      this.#end(outcome);
    });
    this.#inFlight.add(attempt);
    this.#options.metrics.deliveriesInFlight.set(this.#inFlight.size);
  }

  #leave(passage: Passage, outcome: DeliveryOutcome): void {
    const now = performance.now();
    if (outcome.kind === 'sent') passage.leave({ failed: !outcome.result.delivered }, now);
    else if (outcome.kind === 'postponed' && outcome.by === 'relay') passage.leave({ failed: true }, now);
    else passage.cancel();
    this.#options.metrics.deliveriesInFlight.set(this.#inFlight.size);
  }

  #end(outcome: DeliveryOutcome): void {
    const { claim } = outcome;
    const endpoint = endpointKeyOf(claim.endpoint);
    const isGone = outcome.kind === 'sent' && outcome.result.gone;
    if (isGone) {
      this.#gone.add(endpoint);
      this.#giveBack(this.#held.takeOlder(Number.POSITIVE_INFINITY, [endpoint]));
    }
    this.#sendHeld(endpoint);
    this.#options.onEnd(outcome, () => {
      this.#shares.giveBack(claim.projectId);
      this.#unwritten.delete(attemptKeyOf(claim));
      if (isGone) this.#gone.delete(endpoint);
    });
  }

  #hold(claim: ClaimedDelivery, now: number): void {
    this.#held.add(claim, now);
    this.#holdTimer ??= setTimeout(() => this.#giveBackLate(), HOLD_MS);
  }

  /** The free places at the endpoint are for what is held for it. */
  #sendHeld(endpoint: string): void {
    const now = performance.now();
    while (this.#gate.placesFor(endpoint, now) > 0) {
      const claim = this.#held.takeNext(endpoint, now - HOLD_MS);
      const passage = claim && this.#gate.enter(endpoint, now);
      if (!claim || passage?.state !== 'entered') return;
      this.#start(claim, passage);
    }
  }

  #giveBackLate(): void {
    const late = this.#held.takeOlder(performance.now() - HOLD_MS);
    for (const { endpoint } of late) this.#gate.recordLate(endpointKeyOf(endpoint));
    this.#giveBack(late);
    this.#holdTimer = this.#held.count > 0 ? setTimeout(() => this.#giveBackLate(), HOLD_MS / 2) : undefined;
  }

  #giveBack(claims: ClaimedDelivery[]): void {
    if (claims.length === 0) return;
    for (const claim of claims) {
      this.#shares.giveBack(claim.projectId);
      this.#unwritten.delete(attemptKeyOf(claim));
    }
    this.#options.onGiveBack(claims);
  }

  /** Never rejects: an internal fault postpones the delivery. */
  async #send(claim: ClaimedDelivery): Promise<DeliveryOutcome> {
    const { log, metrics } = this.#options;
    const { endpoint } = claim;
    const startedAt = performance.now();
    try {
      if (!claim.urlBox) throw new Error('The endpoint has no address.');
      const result = await this.#senders.of(claim).send({
        url: this.#open(claim.urlBox, addressPlace(endpoint, claim.relayTopicId)),
        webhookId: claim.webhookId,
        body: claim.body,
        secrets: claim.secretBoxes.map((box) => this.#open(box, secretPlace(endpoint))),
      });
      metrics.attemptDuration.observe(result.latencyMs / 1000);
      const outcome = outcomeOf(claim, result, { startedAt, finishedAt: performance.now() });
      if (outcome.kind === 'postponed') this.#refused.record({ endpointId: endpoint.endpointId });
      return outcome;
    } catch (err) {
      log.error(
        { err, deliveryId: claim.deliveryId, endpointId: endpoint.endpointId },
        'A delivery could not be attempted. It will be tried again in a minute.',
      );
      return { claim, kind: 'postponed', by: 'fault', waitMs: FAULT_MS };
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
