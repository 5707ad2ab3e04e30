// Work of the house (partitions, retention) that one replica at a time does, under a lease row. Loop calls it often;
// it does something when the lease is free and the work is due.
import type { Pool } from '../../store/postgres/pool.ts';
import { claimLease, releaseLease, renewLease } from '../../store/upkeep/sweeper-leases.ts';
import type { RunResult } from '../loop.ts';

export interface LeasedJobOptions {
  pool: Pool;
  /** Of this process. */
  owner: string;
  name: string;
  /** Not again before this time has passed since it was done. */
  everyMs: number;
  /** One bounded step; `more` while there is more to do. */
  step: () => Promise<RunResult>;
}

/** Longer than a step may take. */
const LEASE_MS = 120_000;

export class LeasedJob {
  readonly #options: LeasedJobOptions;
  #isStopping = false;

  constructor(options: LeasedJobOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  /** Ends the work after the step under way. */
  stop(): void {
    this.#isStopping = true;
  }

  /** All steps, if this is the replica to do them now. */
  async run(): Promise<RunResult> {
    const { pool, name, owner, everyMs, step } = this.#options;
    const lease = { name, owner, leaseMs: LEASE_MS };
    if (!(await claimLease(pool, { ...lease, everyMs }))) return 'idle';
    let isDone = false;
    try {
      while (!isDone && !this.#isStopping && (await renewLease(pool, lease))) {
        isDone = (await step()) === 'idle';
      }
    } finally {
      await releaseLease(pool, lease, isDone);
    }
    return 'idle';
  }
}
