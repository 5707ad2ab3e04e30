// Keeps one slow or dead receiver from holding up the others: a bound on attempts in flight per endpoint and a breaker
// per endpoint, in this process. The dispatcher asks it before each attempt, after the share of the endpoint's project; it
// sends and stores nothing.
import { RecentlyUsed } from './recently-used.ts';

/** The breaker opens when half of five or more attempts failed in 5 minutes (docs/contract/callbacks.md). */
const WINDOW_MS = 300_000;
const MIN_ATTEMPTS = 5;
const FAILED_SHARE = 0.5;
const FIRST_OPEN_MS = 30_000;
const MAX_OPEN_MS = 600_000;
/** Attempts are counted by slices of the window, so that a busy endpoint costs no more memory than a quiet one. */
const SLICE_MS = 10_000;
/**
 * What is claimed ahead for an endpoint is what it takes in this time, and at most five times its places: with fewer, claims
 * and writes are so small that the statements themselves cost as much as their rows.
 */
const AHEAD_MS = 250;
const AHEAD_TIMES = 5;
/** The part of a new attempt in the mean time of the attempts. */
const MEAN_SHARE = 1 / 8;
/** A probe whose result never comes holds the breaker no longer than this. */
const PROBE_LOST_MS = 30_000;

interface Slice {
  startMs: number;
  attempts: number;
  failures: number;
}

/** The breaker of one endpoint: a pure state machine, (state, event, now) -> state. */
export type BreakerState =
  | { kind: 'closed'; slices: readonly Slice[] }
  | { kind: 'open'; openMs: number; untilMs: number }
  | { kind: 'probing'; openMs: number; sinceMs: number };

/** `probe`: one attempt that decides. Its result must be recorded as one. */
export type Admission =
  | { kind: 'attempt' | 'probe'; state: BreakerState }
  | { kind: 'refused'; state: BreakerState; retryAtMs: number };

export interface BreakerResult {
  admittedAs: 'attempt' | 'probe';
  failed: boolean;
}

/** The state of an endpoint without a history. */
export const CLOSED_BREAKER: BreakerState = { kind: 'closed', slices: [] };

/** Whether an attempt may begin now. The returned state replaces the given one. */
export function admit(state: BreakerState, nowMs: number): Admission {
  if (state.kind === 'closed') return { kind: 'attempt', state };
  const retryAtMs = state.kind === 'open' ? state.untilMs : state.sinceMs + PROBE_LOST_MS;
  if (nowMs < retryAtMs) return { kind: 'refused', state, retryAtMs };
  return { kind: 'probe', state: { kind: 'probing', openMs: state.openMs, sinceMs: nowMs } };
}

/** The state after a result. An attempt that began before the breaker opened changes nothing when it ends after that. */
export function record(state: BreakerState, result: BreakerResult, nowMs: number): BreakerState {
  if (state.kind === 'closed') {
    // A probe that ends after the breaker has closed counts like any attempt.
    return countAttempt(state.slices, result.failed, nowMs);
  }
  if (state.kind === 'open' || result.admittedAs === 'attempt') return state;
  if (!result.failed) return CLOSED_BREAKER;
  const openMs = Math.min(state.openMs * 2, MAX_OPEN_MS);
  return { kind: 'open', openMs, untilMs: nowMs + openMs };
}

function countAttempt(slices: readonly Slice[], failed: boolean, nowMs: number): BreakerState {
  const startMs = Math.floor(nowMs / SLICE_MS) * SLICE_MS;
  const kept = slices.filter((slice) => slice.startMs > startMs - WINDOW_MS && slice.startMs !== startMs);
  const current = slices.find((slice) => slice.startMs === startMs) ?? { startMs, attempts: 0, failures: 0 };
  const counted = [
    ...kept,
    { startMs, attempts: current.attempts + 1, failures: current.failures + (failed ? 1 : 0) },
  ];
  const attempts = counted.reduce((sum, slice) => sum + slice.attempts, 0);
  const failures = counted.reduce((sum, slice) => sum + slice.failures, 0);
  // A success never opens the breaker, even if it is the attempt with which there are enough of them.
  if (failed && attempts >= MIN_ATTEMPTS && failures >= attempts * FAILED_SHARE) {
    return { kind: 'open', openMs: FIRST_OPEN_MS, untilMs: nowMs + FIRST_OPEN_MS };
  }
  return { kind: 'closed', slices: counted };
}

export interface EndpointGateOptions {
  /** Attempts in flight to one endpoint that has answered several times. */
  maxPerEndpoint?: number;
  /** Endpoints remembered. Those without an attempt in flight are forgotten, least recently used first. */
  maxEndpoints?: number;
}

/** A place for one attempt. */
export interface Passage {
  state: 'entered';
  /** Call once, when the attempt is over; everything but a delivery is `failed`. Later calls do nothing. */
  leave(result: { failed: boolean }, nowMs: number): void;
  /** Call instead of `leave` where no attempt was made (its claim was lost): nothing is counted. */
  cancel(): void;
}

export type GateAnswer =
  | Passage
  /** `busy`: the bound on attempts in flight is reached. `open`: the breaker lets none through before `retryAtMs`. */
  | { state: 'busy' }
  | { state: 'open'; retryAtMs: number };

interface EndpointEntry {
  breaker: BreakerState;
  inFlight: number;
  /** Grows from 1 by doubling with each success and falls to 1 with a failure: a dead receiver holds one place. */
  limit: number;
  /** How long the last attempts took, ms. */
  meanMs: number;
  /** What was claimed ahead was not sent in time, and no attempt has ended since. */
  isLate: boolean;
}

const DEFAULTS = { maxPerEndpoint: 32, maxEndpoints: 10_000 };

/** One per process. Times are milliseconds of any one clock that does not go back. */
export class EndpointGate {
  readonly #bounds: Required<EndpointGateOptions>;
  readonly #projects = new RecentlyUsed<RecentlyUsed<EndpointEntry>>();
  #size = 0;

  constructor(options: EndpointGateOptions = {}) {
    this.#bounds = { ...DEFAULTS, ...options };
  }

  /** Asks for a place for one attempt. `endpoint` is the project, a blank and the endpoint in it. */
  enter(endpoint: string, nowMs: number): GateAnswer {
    const entry = this.#use(endpoint);
    if (entry.inFlight >= entry.limit) return { state: 'busy' };
    const before = entry.breaker;
    const admission = admit(before, nowMs);
    entry.breaker = admission.state;
    if (admission.kind === 'refused') return { state: 'open', retryAtMs: admission.retryAtMs };
    entry.inFlight += 1;
    // A forgotten endpoint begins again as an unknown one: with one attempt at a time. This one is in use now.
    this.#dropSurplus();
    return this.#passage(entry, { admittedAs: admission.kind, before, enteredMs: nowMs });
  }

  /** How many attempts to the endpoint may begin now. A claim of no more is not filled by one receiver that hangs. */
  placesFor(endpoint: string, nowMs: number): number {
    const entry = this.#projects.get(projectOf(endpoint))?.get(endpoint);
    if (!entry) return 1;
    const admission = admit(entry.breaker, nowMs);
    if (admission.kind === 'refused') return 0;
    const places = Math.max(0, entry.limit - entry.inFlight);
    return admission.kind === 'probe' ? Math.min(1, places) : places;
  }

  /**
   * How many deliveries beyond its places are worth a claim, since the endpoint will take them in a moment: none unless the
   * last attempts went well.
   */
  aheadFor(endpoint: string): number {
    const entry = this.#projects.get(projectOf(endpoint))?.get(endpoint);
    if (entry?.breaker.kind !== 'closed' || entry.isLate || entry.limit < this.#bounds.maxPerEndpoint)
      return 0;
    return Math.floor(entry.limit * Math.min(AHEAD_TIMES, AHEAD_MS / entry.meanMs));
  }

  /** What was claimed ahead was not sent in time: nothing more is until an attempt has ended. */
  recordLate(endpoint: string): void {
    const entry = this.#projects.get(projectOf(endpoint))?.get(endpoint);
    if (entry) entry.isLate = true;
  }

  #use(endpoint: string): EndpointEntry {
    const entries = this.#projects.use(projectOf(endpoint), () => new RecentlyUsed());
    const before = entries.size;
    const entry = entries.use(endpoint, () => ({
      breaker: CLOSED_BREAKER,
      inFlight: 0,
      limit: 1,
      meanMs: 0,
      isLate: false,
    }));
    this.#size += entries.size - before;
    return entry;
  }

  /** The project with the most endpoints loses its oldest one: one with very many ends no breaker of another. */
  #dropSurplus(): void {
    while (this.#size > this.#bounds.maxEndpoints) {
      let most: RecentlyUsed<EndpointEntry> | undefined;
      for (const entries of this.#projects.values()) {
        if (entries.size > (most?.size ?? 0) && hasIdle(entries)) most = entries;
      }
      const [dropped] = most?.dropSurplus(most.size - 1, isInUse) ?? [];
      if (!dropped) return;
      this.#size -= 1;
      if (most?.size === 0) this.#forgetEmpty();
    }
  }

  #forgetEmpty(): void {
    for (const [project, entries] of this.#projects) if (entries.size === 0) this.#projects.delete(project);
  }

  #passage(entry: EndpointEntry, { admittedAs, before, enteredMs }: Entrance): Passage {
    let isOver = false;
    const giveBack = (): boolean => {
      if (isOver) return false;
      isOver = true;
      entry.inFlight -= 1;
      entry.isLate = false;
      return true;
    };
    return {
      state: 'entered',
      leave: ({ failed }, nowMs) => {
        if (!giveBack()) return;
        const tookMs = nowMs - enteredMs;
        entry.meanMs = entry.meanMs === 0 ? tookMs : entry.meanMs + (tookMs - entry.meanMs) * MEAN_SHARE;
        entry.breaker = record(entry.breaker, { admittedAs, failed }, nowMs);
        entry.limit = failed ? 1 : Math.min(entry.limit * 2, this.#bounds.maxPerEndpoint);
      },
      cancel: () => {
        if (!giveBack()) return;
        // A probe that was not made leaves the breaker unchanged: the next attempt is the probe.
        if (admittedAs === 'probe') entry.breaker = before;
      },
    };
  }
}

interface Entrance {
  admittedAs: 'attempt' | 'probe';
  /** The breaker before it. */
  before: BreakerState;
  enteredMs: number;
}

const isInUse = ({ inFlight }: EndpointEntry) => inFlight > 0;

function hasIdle(entries: RecentlyUsed<EndpointEntry>): boolean {
  for (const entry of entries.values()) if (!isInUse(entry)) return true;
  return false;
}

function projectOf(endpoint: string): string {
  return endpoint.slice(0, endpoint.indexOf(' '));
}
