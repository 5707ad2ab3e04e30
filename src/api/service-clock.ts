// The heartbeat of an api: each second it says that beats can be accepted here (completion.md 3.2). While they wait and
// none gets through it says nothing, though the database may answer this connection: the span becomes an outage.

import type { Pool } from '../store/pool.ts';
import { advanceServiceClock } from '../store/service-clock.ts';
import type { Log } from '../telemetry/log.ts';

const BEAT_MS = 1_000;
const WORDS = {
  outage: 'No api could accept beats in this span: deadlines inside of it move.',
  set_back: 'The clock of the database was set back: what waits for a moment waits longer by as much.',
} as const;

export interface ServiceClock {
  /** Ends it; a beat that is on its way is waited for. */
  stop(): Promise<void>;
}

/** Start it once beats are accepted. A beat that fails is tried again a second later: then it was an outage. */
export function startServiceClock(pool: Pool, log: Log, isAccepting: () => boolean): ServiceClock {
  let beating: Promise<void> | undefined;
  const beat = async () => {
    try {
      const gap = await advanceServiceClock(pool);
      if (gap) log.warn(gap, WORDS[gap.kind]);
    } catch (err) {
      log.warn({ err }, 'The service clock could not be moved.');
    } finally {
      beating = undefined;
    }
  };
  const tick = () => {
    if (isAccepting()) beating ??= beat();
  };
  tick();
  const timer = setInterval(tick, BEAT_MS);
  return {
    async stop() {
      clearInterval(timer);
      await beating;
    },
  };
}
