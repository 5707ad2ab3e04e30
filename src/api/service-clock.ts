// The service clock of an api process: each second it records that this api can accept beats
// (docs/contract/deadlines.md). While beats wait here and none gets through, it records an outage instead: other apis,
// at which no beat waits, may still advance the clock.
import type { Pool } from '../store/postgres/pool.ts';
import {
  advanceServiceClock,
  notifyIncidentsOfOutage,
  OUTAGE_MS,
  type OutageUnderWay,
  recordStuckBeats,
} from '../store/upkeep/service-clock.ts';
import type { Log } from '../telemetry/log.ts';

const PERIOD_MS = 1_000;
/** A fault counts as over after this long without another: until then refused senders come back and may wait again. */
const CALM_MS = 15_000;
const GAP_MESSAGE = {
  outage: 'No api could accept beats in this span: deadlines that fell into it move.',
  set_back: 'The clock of the database was set back: whatever waits for a moment waits longer by that much.',
} as const;

export interface ServiceClock {
  /** Ends it. Waits for a write that is under way, and notifies incidents of a fault that no other api knows of. */
  stop(): Promise<void>;
}

/**
 * Start it once beats are accepted. A write that fails is tried again a second later: then it was an outage.
 * `findStuckMs`: for how long beats have waited here while none got through, in ms; 0 while they are accepted.
 */
export function startServiceClock(pool: Pool, log: Log, findStuckMs: () => number): ServiceClock {
  const keeper = new ServiceClockKeeper(pool, log);
  let writing: Promise<void> | undefined;
  const write = async (stuckMs: number) => {
    try {
      if (stuckMs === 0) await keeper.advance();
      else await keeper.recordOutage(stuckMs);
    } catch (err) {
      log.warn({ err }, 'The service clock could not be advanced.');
    } finally {
      writing = undefined;
    }
  };
  let wasStuck = false;
  const check = () => {
    const stuckMs = findStuckMs();
    // A short wait is no outage yet, and no sign of health. One long wait is no outage either: a process that was
    // stopped for a while has the answers to its beats and has not read them yet. Two in a row are.
    const isStuck = stuckMs > OUTAGE_MS;
    if (stuckMs === 0 || (isStuck && wasStuck)) writing ??= write(stuckMs);
    wasStuck = isStuck;
  };
  check();
  const timer = setInterval(check, PERIOD_MS);
  return {
    async stop() {
      clearInterval(timer);
      await writing;
      await keeper
        .notifyIncidents()
        .catch((err: unknown) => log.warn({ err }, 'Incidents could not be notified of an outage.'));
    },
  };
}

class ServiceClockKeeper {
  readonly #pool: Pool;
  readonly #log: Log;
  #fault: { underWay: OutageUnderWay; seenAt: number } | undefined;

  constructor(pool: Pool, log: Log) {
    this.#pool = pool;
    this.#log = log;
  }

  async advance(): Promise<void> {
    const gap = await advanceServiceClock(this.#pool);
    if (gap) this.#log.warn(gap, GAP_MESSAGE[gap.kind]);
    if (this.#fault && performance.now() - this.#fault.seenAt > CALM_MS) await this.notifyIncidents();
  }

  async recordOutage(stuckMs: number): Promise<void> {
    const underWay = await recordStuckBeats(this.#pool, stuckMs, this.#fault?.underWay);
    this.#fault = { underWay, seenAt: performance.now() };
  }

  /** Ends the fault, if there is one: writes its span into the timelines of open incidents. */
  async notifyIncidents(): Promise<void> {
    if (!this.#fault) return;
    const { fromMs, toMs } = this.#fault.underWay;
    await notifyIncidentsOfOutage(this.#pool, { fromMs, toMs });
    this.#fault = undefined;
    this.#log.warn(
      { fromMs, toMs },
      'This api refused beats in this span: deadlines that fell into it move.',
    );
  }
}
