// Writes the outcomes of deliveries: one batch at a time, and outcomes that come meanwhile are the next batch. While the
// database is away outcomes wait here. A delivery whose lease another dispatcher has taken belongs to that dispatcher.
// The outcomes of all projects share the batches: one that can't be written now is held back, and holds up no other.
import type { DeliveryState } from '../../domain/callback.ts';
import { SYSTEM_ACTOR } from '../../domain/incident.ts';
import { disableEndpoint, type GoneEndpoint } from '../../service/callbacks/callback-changes.ts';
import { isSameUrl } from '../../service/callbacks/endpoint-seal.ts';
import type { EndpointRef } from '../../store/callbacks/callback-endpoints.ts';
import type { ClaimedDelivery } from '../../store/deliveries/delivery-queue.ts';
import {
  type DeliveryResult,
  type WrittenResults,
  writeDeliveryResults,
} from '../../store/deliveries/delivery-results.ts';
import { toNewEntry } from '../../store/incidents/incidents.ts';
import { findInlineMonitor, type MonitorName } from '../../store/monitors/monitors.ts';
import { isFaultOfData, isTimedOut } from '../../store/postgres/database-error.ts';
import type { Pool, Queryable } from '../../store/postgres/pool.ts';
import type { SecretBox } from '../../store/postgres/secret-box.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { boundMonitor, writeAudit } from '../../telemetry/audit.ts';
import type { Log } from '../../telemetry/log.ts';
import { endsWithin } from '../ends-within.ts';
import { Loop, type RunResult } from '../loop.ts';
import {
  type DeliveryOutcome,
  type DescribedOutcome,
  describeOutcome,
  timelineOf,
} from './delivery-outcome.ts';
import { endpointKeyOf } from './due-queues.ts';

export interface OutcomeWriterOptions {
  pool: Pool;
  secrets: SecretBox;
  /** The owner of the leases. */
  owner: string;
  log: Log;
  /** Called after the commit with what was written, without deliveries that belong to another dispatcher by then. */
  onWritten: (written: WrittenOutcome[]) => void;
}

export interface WrittenOutcome {
  outcome: DeliveryOutcome;
  state: DeliveryState;
  /** When an attempt ended the delivery, ms of the database's clock. */
  endedMs?: number;
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

  constructor(options: OutcomeWriterOptions) {
    this.#options = options;
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
    if (!(await endsWithin(this.#loop.stop(), LAST_BATCH_MS))) return [];
    return this.#queue.map(({ outcome }) => outcome.claim);
  }

  async #run(): Promise<RunResult> {
    if (this.#ready().length === 0) return 'idle';
    if (this.#queue.length < SMALL_BATCH) await new Promise((resolve) => setTimeout(resolve, LINGER_MS));
    const batch = this.#nextBatch();
    const startedAt = performance.now();
    try {
      const { written, busy, disabled } = await writeOutcomes(
        this.#options,
        batch.map(({ outcome }) => outcome),
      );
      for (const endpoint of disabled) auditDisabled(this.#options.log, endpoint);
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
    return others.slice(0, this.#single > 0 ? 1 : MAX_BATCH);
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
    if (!isFaultOfData(error) && !isTimedOut(error)) throw error;
    const [first, ...others] = batch;
    if (!first || others.length > 0) {
      this.#single = batch.length + 1;
      return;
    }
    const { deliveryId, endpoint } = first.outcome.claim;
    if (isTimedOut(error)) {
      this.#options.log.warn(
        { err: error, deliveryId },
        'The outcome of a delivery could not be written in time. It will be tried again.',
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

/** Outcomes of deliveries to these endpoints, or of the others. */
function isAt(endpoints: readonly EndpointRef[], expected: boolean) {
  const keys = new Set(endpoints.map(endpointKeyOf));
  return ({ outcome }: Pick<Waiting, 'outcome'>) =>
    keys.has(endpointKeyOf(outcome.claim.endpoint)) === expected;
}

interface WrittenBatch {
  written: WrittenOutcome[];
  busy: EndpointRef[];
  disabled: DisabledEndpoint[];
}

/** One statement, unless an endpoint is to be disabled: that commits together with the outcome that shows it. */
async function writeOutcomes(
  { pool, secrets, owner }: OutcomeWriterOptions,
  outcomes: readonly DeliveryOutcome[],
): Promise<WrittenBatch> {
  const now = performance.now();
  const described = outcomes.map((outcome) => describeOutcome(outcome, now));
  const batch = { owner, results: resultsOf(described) };
  if (described.every(({ disable }) => disable === undefined)) {
    const results = await writeDeliveryResults(pool, batch);
    return { written: join(described, results), busy: results.busy, disabled: [] };
  }
  return await inTransaction(pool, async (tx) => {
    const results = await writeDeliveryResults(tx, batch);
    const free = described.filter(isAt(results.busy, false));
    const disabled = await disableEndpoints(tx, secrets, free, results.nowMs);
    return { written: join(described, results), busy: results.busy, disabled };
  });
}

function resultsOf(described: readonly DescribedOutcome[]): DeliveryResult[] {
  return described.map((of, index) => {
    const row = timelineOf(of);
    return row ? { ...of.result, entry: toNewEntry(row, index) } : of.result;
  });
}

function join(described: readonly DescribedOutcome[], { written }: WrittenResults): WrittenOutcome[] {
  const keyOf = (of: { projectId: string; deliveryId: string }) => `${of.projectId} ${of.deliveryId}`;
  const results = new Map(written.map((result) => [keyOf(result), result]));
  return described.flatMap(({ outcome, result }) => {
    const { state, endedMs } = results.get(keyOf(result)) ?? {};
    return state ? { outcome, state, endedMs } : [];
  });
}

/** Disables endpoints that answered 410, after the results are written: what is pending at them then is canceled. */
async function disableEndpoints(
  tx: Queryable,
  secrets: SecretBox,
  described: readonly DescribedOutcome[],
  nowMs: number,
): Promise<DisabledEndpoint[]> {
  const gone = new Map<string, GoneEndpoint>();
  for (const { outcome, disable } of described) {
    const { endpoint, urlBox } = outcome.claim;
    if (!disable || !urlBox) continue;
    gone.set(`${endpointKeyOf(endpoint)} ${urlBox.toString('base64')}`, {
      ...endpoint,
      reason: disable,
      isAddress: (current) => isSameUrl(secrets, endpoint, [current, urlBox]),
    });
  }
  const disabled: DisabledEndpoint[] = [];
  for (const endpoint of gone.values()) {
    if (!(await disableEndpoint(tx, endpoint, nowMs))) continue;
    disabled.push({ ...endpoint, monitor: await findInlineMonitor(tx, endpoint) });
  }
  return disabled;
}

interface DisabledEndpoint extends EndpointRef {
  /** Of an inline binding. */
  monitor?: Required<MonitorName>;
}

function auditDisabled(log: Log, { projectId, endpointId, monitor }: DisabledEndpoint): void {
  const object = monitor
    ? boundMonitor(monitor, endpointId)
    : ({ kind: 'endpoint', id: endpointId, projectId } as const);
  writeAudit(log, { actor: SYSTEM_ACTOR, action: 'endpoint.disable', object });
}
