// Gives leases back, so that no dispatcher waits for their end. What fails is tried again, until they end by themselves.
import { type ClaimedDelivery, LEASE_MS } from '../../store/deliveries/delivery-queue.ts';
import { releaseLeases } from '../../store/deliveries/lease-release.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import { endsWithin } from '../ends-within.ts';
import { Loop, type RunResult } from '../loop.ts';

export interface LeaseReturnsOptions {
  pool: Pool;
  /** Of the leases. */
  owner: string;
  log: Log;
}

interface Waiting {
  claim: ClaimedDelivery;
  /** Of `performance.now()`: its lease has ended then. */
  untilAt: number;
}

/** Leases that one statement gives back. */
const MAX_BATCH = 512;
/** Without work. Whatever is added wakes the loop. */
const IDLE_MS = 60_000;
/** How long the process, when it ends, waits for the database. */
const STOP_MS = 2_000;

export class LeaseReturns {
  readonly #options: LeaseReturnsOptions;
  readonly #loop: Loop;
  #waiting: Waiting[] = [];

  constructor(options: LeaseReturnsOptions) {
    this.#options = options;
    this.#loop = new Loop({
      intervalMs: IDLE_MS,
      run: () => this.#run(),
      onError: (err) => options.log.warn({ err }, 'Leases could not be given back yet.'),
    });
  }

  add(claims: readonly ClaimedDelivery[]): void {
    const untilAt = performance.now() + LEASE_MS;
    this.#waiting.push(...claims.map((claim) => ({ claim, untilAt })));
    if (claims.length > 0) this.#loop.wake();
  }

  /** Tries once more what is left, for two seconds. */
  async stop(): Promise<void> {
    try {
      if (!(await endsWithin(this.#giveBackRest(), STOP_MS)))
        throw new Error('The database does not answer.');
    } catch (err) {
      this.#options.log.warn({ err }, 'Leases could not be given back. They end by themselves.');
    }
  }

  async #giveBackRest(): Promise<void> {
    await this.#loop.stop();
    while ((await this.#run()) === 'more');
  }

  async #run(): Promise<RunResult> {
    const now = performance.now();
    this.#waiting = this.#waiting.filter(({ untilAt }) => untilAt > now);
    const batch = this.#waiting.slice(0, MAX_BATCH);
    const { pool, owner } = this.#options;
    await releaseLeases(
      pool,
      owner,
      batch.map(({ claim }) => claim),
    );
    const ended = new Set(batch);
    this.#waiting = this.#waiting.filter((waiting) => !ended.has(waiting));
    return this.#waiting.length > 0 ? 'more' : 'idle';
  }
}
