// The heartbeat of an api: each second it says that beats can be accepted here (docs/contract/deadlines.md). While they wait and
// none gets through it says so instead, where the database answers this connection: other apis may have none that waits.
import type { Pool } from '../store/postgres/pool.ts';
import {
  advanceServiceClock,
  OUTAGE_MS,
  type OutageUnderWay,
  recordStuckBeats,
  tellOutage,
} from '../store/upkeep/service-clock.ts';
import type { Log } from '../telemetry/log.ts';

const BEAT_MS = 1_000;
/** A fault that is over for so long is over: until then senders that are refused come back and may wait again. */
const CALM_MS = 15_000;
const WORDS = {
  outage: 'No api could accept beats in this span: deadlines inside of it move.',
  set_back: 'The clock of the database was set back: what waits for a moment waits longer by as much.',
} as const;

export interface ServiceClock {
  /** Ends it; a beat that is on its way is waited for, and incidents are told of a fault that nobody else can tell of. */
  stop(): Promise<void>;
}

/**
 * Start it once beats are accepted. A beat that fails is tried again a second later: then it was an outage.
 * `findStuckMs`: for how long beats have waited here while none gets through; 0 while they are accepted.
 */
export function startServiceClock(pool: Pool, log: Log, findStuckMs: () => number): ServiceClock {
  const heart = new Heart(pool, log);
  let beating: Promise<void> | undefined;
  const beat = async (stuckMs: number) => {
    try {
      if (stuckMs === 0) await heart.beat();
      else await heart.stand(stuckMs);
    } catch (err) {
      log.warn({ err }, 'The service clock could not be moved.');
    } finally {
      beating = undefined;
    }
  };
  let wasStuck = false;
  const tick = () => {
    const stuckMs = findStuckMs();
    // A short wait is no outage yet, and no sign of health. Nor is a long one at a single look: a process that was
    // stopped for a while has the answers to its beats, and has not read them yet.
    const isStuck = stuckMs > OUTAGE_MS;
    if (stuckMs === 0 || (isStuck && wasStuck)) beating ??= beat(stuckMs);
    wasStuck = isStuck;
  };
  tick();
  const timer = setInterval(tick, BEAT_MS);
  return {
    async stop() {
      clearInterval(timer);
      await beating;
      await heart
        .tell()
        .catch((err: unknown) => log.warn({ err }, 'Incidents could not be told of an outage.'));
    },
  };
}

class Heart {
  readonly #pool: Pool;
  readonly #log: Log;
  #fault: { underWay: OutageUnderWay; seenAt: number } | undefined;

  constructor(pool: Pool, log: Log) {
    this.#pool = pool;
    this.#log = log;
  }

  async beat(): Promise<void> {
    const gap = await advanceServiceClock(this.#pool);
    if (gap) this.#log.warn(gap, WORDS[gap.kind]);
    if (this.#fault && performance.now() - this.#fault.seenAt > CALM_MS) {
      await this.tell();
    }
  }

  async stand(stuckMs: number): Promise<void> {
    const underWay = await recordStuckBeats(this.#pool, stuckMs, this.#fault?.underWay);
    this.#fault = { underWay, seenAt: performance.now() };
  }

  /** Ends the fault, if there is one. */
  async tell(): Promise<void> {
    if (!this.#fault) return;
    const { fromMs, toMs } = this.#fault.underWay;
    await tellOutage(this.#pool, { fromMs, toMs });
    this.#fault = undefined;
    this.#log.warn({ fromMs, toMs }, 'Beats were refused here in this span: deadlines inside of it move.');
  }
}
