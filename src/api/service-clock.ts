// The service clock of an api process: each second it records that this api lives, and up to which moment every beat that
// reached it is decided (docs/contract/deadlines.md).
import { newUuid } from '../domain/id.ts';
import type { OpenBeats } from '../ingest/open-beats.ts';
import type { Arrivals } from '../ingest/shared-arrivals.ts';
import type { Pool } from '../store/postgres/pool.ts';
import {
  type ClockReading,
  endServiceClock,
  type OwnSign,
  type Settled,
  settleServiceClock,
  signServiceClock,
} from '../store/upkeep/service-clock.ts';
import type { Log } from '../telemetry/log.ts';
import { OccasionalWarning } from '../telemetry/occasional-warning.ts';

const PERIOD_MS = 1_000;
const END_ATTEMPTS = 3;

/** A span of `performance.now()`. */
export interface LocalSpan {
  fromAt: number;
  toAt: number;
}

export interface ServiceClockDeps {
  /** A connection of its own: a busy pool must not look like an outage. */
  pool: Pool;
  log: Log;
  /** Where balancers send to this api. */
  address: string;
  openBeats: Pick<OpenBeats, 'oldestAt' | 'lostSpan' | 'settleLost'>;
  arrivals: Arrivals;
}

export interface ServiceClock {
  /**
   * From now on this api refuses connections: the clock stands here until `stop`. If no other api lives, the next one
   * finds an outage from this moment on.
   */
  leave(): void;
  /**
   * Ends it. Call it when no beat can arrive any more and what waited is written: an api that still holds a beat is not
   * ended, so that the time since that beat becomes an outage.
   */
  stop(): Promise<void>;
}

/**
 * Start it once beats are accepted, on a connection that is open: until the first write nothing holds the sweepers back
 * for the beats of this api. A write that fails is tried again a second later.
 */
export function startServiceClock(deps: ServiceClockDeps): ServiceClock {
  const keeper = new ServiceClockKeeper(deps);
  const stopping = new AbortController();
  const running = run(keeper, stopping.signal);
  return {
    leave: () => keeper.leave(),
    async stop() {
      stopping.abort();
      await running;
      await keeper.end();
    },
  };
}

async function run(keeper: ServiceClockKeeper, signal: AbortSignal): Promise<void> {
  let dueAt = performance.now();
  while (!signal.aborted) {
    await keeper.check();
    const now = performance.now();
    dueAt = Math.max(dueAt + PERIOD_MS, now);
    await pause(dueAt - now, signal);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}

const OUTAGE_MESSAGES = {
  away: 'This api stood still or did not reach the database in this span: deadlines that fell into it move.',
  none: 'No api ran in this span: deadlines that fell into it move.',
  replaced: 'The api at this address ended without a goodbye: deadlines that fell into the span move.',
  gone: 'An api ended without a goodbye and did not return: deadlines that fell into the span move.',
  lost: 'This api refused more beats than it can remember in this span: deadlines that fell into it move.',
};

class ServiceClockKeeper {
  readonly #deps: ServiceClockDeps;
  readonly #apiId = newUuid();
  readonly #unwritten: OccasionalWarning;
  readonly #lost: OccasionalWarning;
  #reading: ClockReading | undefined;
  /** When this api began to refuse connections. */
  #leftAt = Number.POSITIVE_INFINITY;

  constructor(deps: ServiceClockDeps) {
    this.#deps = deps;
    this.#unwritten = new OccasionalWarning(deps.log, 'The service clock could not be written.');
    this.#lost = new OccasionalWarning(deps.log, OUTAGE_MESSAGES.lost);
  }

  leave(): void {
    // Connections that were not accepted yet are refused as well.
    this.#leftAt = Math.min(this.#leftAt, this.#deps.arrivals.knownAt);
  }

  /** Never rejects. False: the row could not be written. */
  async check(): Promise<boolean> {
    try {
      await this.#sign();
      return true;
    } catch (err) {
      this.#unwritten.record({ err, address: this.#deps.address });
      return false;
    }
  }

  /** Never rejects. */
  async end(): Promise<void> {
    const isEnded = await this.#tryEnd().catch((err: unknown) => {
      this.#unwritten.record({ err, address: this.#deps.address });
      return false;
    });
    if (isEnded) return;
    const { log, address } = this.#deps;
    log.warn({ address }, 'The service clock of this api is not ended: the time since then is an outage.');
  }

  async #tryEnd(): Promise<boolean> {
    const { pool, openBeats } = this.#deps;
    // A process that stood still after its last sign of life has to give another one.
    for (let attempt = 0; attempt < END_ATTEMPTS; attempt += 1) {
      if (!(await this.check()) || openBeats.oldestAt() !== undefined) return false;
      if (this.#reading === undefined) return false;
      const decidedMs = earliest(this.#reading, Math.min(this.#leftAt, performance.now()));
      if (await endServiceClock(pool, { apiId: this.#apiId, decidedMs })) return true;
    }
    return false;
  }

  async #sign(): Promise<void> {
    const { pool, openBeats, arrivals } = this.#deps;
    const decidedAt = () => {
      const knownAt = Math.min(arrivals.knownAt, this.#leftAt);
      const oldestAt = openBeats.oldestAt() ?? Number.POSITIVE_INFINITY;
      arrivals.forget(Math.min(oldestAt, knownAt));
      return Math.min(arrivals.earliestArrival(oldestAt), knownAt);
    };
    if (this.#reading && openBeats.lostSpan() === undefined) {
      const at = decidedAt();
      const sign = { decidedMs: earliest(this.#reading, at), ageMs: performance.now() - at };
      const reading = await signServiceClock(pool, { apiId: this.#apiId, ...sign });
      if (reading) {
        this.#reading = reading;
        return;
      }
    }
    await this.#settle(decidedAt);
  }

  async #settle(decidedAt: () => number): Promise<void> {
    const { pool, address, openBeats, arrivals } = this.#deps;
    const lost = openBeats.lostSpan();
    const sign = (reading: ClockReading): OwnSign => ({
      decidedMs: earliest(reading, decidedAt()),
      lost: lost && {
        fromMs: earliest(reading, arrivals.earliestArrival(lost.fromAt)),
        toMs: latest(reading, lost.toAt),
        reason: 'lost',
        addresses: [address],
      },
    });
    const settled = await settleServiceClock(pool, { apiId: this.#apiId, address }, sign);
    if (lost) openBeats.settleLost(lost);
    this.#reading = settled.reading;
    this.#report(settled);
  }

  #report({ reading, outages, setBackMs }: Settled): void {
    const { log } = this.#deps;
    for (const { reason, ...span } of outages) {
      if (reason === 'lost') this.#lost.record(span);
      else log.warn({ ...span, reason }, OUTAGE_MESSAGES[reason]);
    }
    if (setBackMs !== undefined) {
      log.warn(
        { nowMs: reading.nowMs, setBackMs },
        'The clock of the database was set back: whatever waits for a moment waits longer by that much.',
      );
    }
  }
}

/** The database's time was at least this at `at`. */
function earliest({ nowMs, answeredAt }: ClockReading, at: number): number {
  return nowMs + at - answeredAt;
}

/** The database's time was at most this at `at`. */
function latest({ nowMs, askedAt }: ClockReading, at: number): number {
  return nowMs + at - askedAt;
}
