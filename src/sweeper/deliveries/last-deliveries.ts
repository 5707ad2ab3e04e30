// On Citus: writes the newest delivery of each endpoint, which people see. An endpoint's row is on every machine, and
// whoever changes one holds up all other changes of endpoints: so it is written by itself, not with the outcomes. What
// can't be written in time is lost when the next delivery to the endpoint ends, or this process does.
import { type NewestDelivery, updateLastDeliveries } from '../../store/callbacks/callback-endpoints.ts';
import type { Pool } from '../../store/postgres/pool.ts';
import type { Log } from '../../telemetry/log.ts';
import { Loop, type RunResult } from '../loop.ts';
import { endpointKeyOf } from './due-queues.ts';

const PERIOD_MS = 1_000;
/** Of one statement. */
const MAX_BATCH = 256;
/** What comes when so many endpoints wait is left out. */
const MAX_WAITING = 10_000;

export class LastDeliveries {
  readonly #pool: Pool;
  readonly #log: Log;
  readonly #loop: Loop;
  /** By endpoint. */
  readonly #newest = new Map<string, NewestDelivery>();

  constructor({ pool, log }: { pool: Pool; log: Log }) {
    this.#pool = pool;
    this.#log = log;
    this.#loop = new Loop({
      intervalMs: PERIOD_MS,
      run: () => this.#run(),
      onError: (err) => this.#log.warn({ err }, 'The last deliveries of endpoints could not be written yet.'),
    });
  }

  /** What was added later ended later. */
  add(newest: readonly NewestDelivery[]): void {
    for (const one of newest) {
      const key = endpointKeyOf(one);
      if (this.#newest.has(key) || this.#newest.size < MAX_WAITING) this.#newest.set(key, one);
    }
  }

  /** Tries once what is left. */
  async stop(): Promise<void> {
    await this.#loop.stop();
    try {
      while ((await this.#run()) === 'more');
    } catch (err) {
      this.#log.warn({ err }, 'The last deliveries of endpoints could not be written.');
    }
  }

  async #run(): Promise<RunResult> {
    const batch = [...this.#newest].slice(0, MAX_BATCH);
    await updateLastDeliveries(
      this.#pool,
      batch.map(([, one]) => one),
    );
    // A newer one that came meanwhile stays.
    for (const [key, one] of batch) if (this.#newest.get(key) === one) this.#newest.delete(key);
    return this.#newest.size > 0 ? 'more' : 'idle';
  }
}
