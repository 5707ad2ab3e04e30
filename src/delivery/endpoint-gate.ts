// Keeps one slow or dead receiver from holding up the others: a bound on attempts in flight per endpoint and a
// breaker per endpoint, in this process. The loop that claims deliveries asks it; it sends and stores nothing.
import { admit, type BreakerState, CLOSED_BREAKER, record } from './breaker.ts';

export interface EndpointGateOptions {
  /** Attempts in flight to one endpoint, once it has shown that it answers. */
  maxPerEndpoint?: number;
  /** Attempts in flight altogether. */
  maxTotal?: number;
  /** Endpoints remembered; those that nothing is in flight to are forgotten, least recently used first. */
  maxEndpoints?: number;
}

/** A place for one attempt. */
export interface Passage {
  state: 'entered';
  /** Call once, when the attempt is over; `failed` for everything but a delivery. Later calls do nothing. */
  leave(result: { failed: boolean }, nowMs: number): void;
  /** Call instead of `leave` where no attempt was made (its claim was lost): nothing is counted. */
  cancel(): void;
}

export type GateAnswer =
  | Passage
  /** `busy`: as much is in flight as may be. `open`: the breaker waits, until `retryAtMs` at the earliest. */
  | { state: 'busy' }
  | { state: 'open'; retryAtMs: number };

interface EndpointEntry {
  breaker: BreakerState;
  inFlight: number;
  /** Grows from 1 by doubling with each success and falls to 1 with a failure: a dead receiver holds one place. */
  limit: number;
}

const DEFAULT_MAX_PER_ENDPOINT = 32;
const DEFAULT_MAX_TOTAL = 512;
const DEFAULT_MAX_ENDPOINTS = 10_000;

/** One per process. Times are milliseconds of any clock that does not go back, the same in every call. */
export class EndpointGate {
  readonly #maxPerEndpoint: number;
  readonly #maxTotal: number;
  readonly #maxEndpoints: number;
  /** In order of last use, oldest first. */
  readonly #entries = new Map<string, EndpointEntry>();
  #inFlight = 0;

  constructor(options: EndpointGateOptions = {}) {
    this.#maxPerEndpoint = options.maxPerEndpoint ?? DEFAULT_MAX_PER_ENDPOINT;
    this.#maxTotal = options.maxTotal ?? DEFAULT_MAX_TOTAL;
    // More than can be in flight, so that what is in flight is never forgotten.
    this.#maxEndpoints = Math.max(options.maxEndpoints ?? DEFAULT_MAX_ENDPOINTS, this.#maxTotal + 1);
  }

  /** How many attempts may begin now, over all endpoints: an upper bound for the next claim. */
  get free(): number {
    return this.#maxTotal - this.#inFlight;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Asks for a place for one attempt. */
  enter(endpointId: string, nowMs: number): GateAnswer {
    const entry = this.#touch(endpointId);
    if (this.#inFlight >= this.#maxTotal || entry.inFlight >= entry.limit) return { state: 'busy' };
    const before = entry.breaker;
    const admission = admit(before, nowMs);
    entry.breaker = admission.state;
    if (admission.kind === 'refused') return { state: 'open', retryAtMs: admission.retryAtMs };
    entry.inFlight += 1;
    this.#inFlight += 1;
    return this.#passage(entry, admission.kind, before);
  }

  /**
   * How many attempts to the endpoint may begin now. A claim that takes no more does not fill up with deliveries to
   * one receiver that hangs.
   */
  placesFor(endpointId: string, nowMs: number): number {
    const entry = this.#entries.get(endpointId);
    if (!entry) return Math.min(1, this.free);
    const admission = admit(entry.breaker, nowMs);
    if (admission.kind === 'refused') return 0;
    const places = Math.max(0, Math.min(entry.limit - entry.inFlight, this.free));
    return admission.kind === 'probe' ? Math.min(1, places) : places;
  }

  #passage(entry: EndpointEntry, admittedAs: 'attempt' | 'probe', before: BreakerState): Passage {
    let isOver = false;
    const giveBack = (): boolean => {
      if (isOver) return false;
      isOver = true;
      entry.inFlight -= 1;
      this.#inFlight -= 1;
      return true;
    };
    return {
      state: 'entered',
      leave: ({ failed }, nowMs) => {
        if (!giveBack()) return;
        entry.breaker = record(entry.breaker, { admittedAs, failed }, nowMs);
        entry.limit = failed ? 1 : Math.min(entry.limit * 2, this.#maxPerEndpoint);
      },
      cancel: () => {
        if (!giveBack()) return;
        // A probe that was not made leaves the breaker as it was: the next attempt is the probe.
        if (admittedAs === 'probe') entry.breaker = before;
      },
    };
  }

  #touch(endpointId: string): EndpointEntry {
    const known = this.#entries.get(endpointId);
    const entry = known ?? { breaker: CLOSED_BREAKER, inFlight: 0, limit: 1 };
    if (known) this.#entries.delete(endpointId);
    this.#entries.set(endpointId, entry);
    this.#forgetSurplus();
    return entry;
  }

  /** What is forgotten begins again as an unknown endpoint: with one attempt at a time. */
  #forgetSurplus(): void {
    let surplus = this.#entries.size - this.#maxEndpoints;
    for (const [endpointId, entry] of this.#entries) {
      if (surplus <= 0) return;
      if (entry.inFlight > 0) continue;
      this.#entries.delete(endpointId);
      surplus -= 1;
    }
  }
}
