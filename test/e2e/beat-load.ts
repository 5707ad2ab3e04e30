// Sends beats at a steady rate: half on new connections, as jobs do, half on kept ones. It does not retry: a beat that is
// refused or cut off is lost.
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';

export interface BeatLoad {
  /** Ends the load and returns the result of every beat, as each later call does. */
  stop(): Promise<BeatResults>;
}

export interface BeatResults {
  sent: number;
  acknowledged: number;
  /** Of each other beat when it was sent, and its answer or the error: `2026-01-01T00:00:00.000Z 503 …`. */
  lost: string[];
}

const INTERVAL_MS = 200;

/** Sends five beats a second to each address. */
export function startBeatLoad(urls: readonly string[]): BeatLoad {
  const kept = new Agent();
  const single = new Agent({ pipelining: 0 });
  const end = new AbortController();
  const lost: string[] = [];
  let sent = 0;
  let acknowledged = 0;

  const beat = async (url: string, dispatcher: Agent) => {
    sent += 1;
    const startedAt = new Date().toISOString();
    try {
      const { statusCode, body } = await request(url, { method: 'POST', dispatcher, headersTimeout: 15_000 });
      const text = await body.text();
      if (statusCode === 200) acknowledged += 1;
      else lost.push(`${startedAt} ${statusCode} ${text}`);
    } catch (error) {
      lost.push(`${startedAt} ${error instanceof Error ? `${error.name} ${error.message}` : String(error)}`);
    }
  };

  // Beats of several ticks may be in flight, so a slow answer does not lower the rate.
  const run = async () => {
    const inFlight = new Set<Promise<void>>();
    for (let tick = 0; !end.signal.aborted; tick += 1) {
      for (const url of urls) {
        const sending = beat(url, tick % 2 === 0 ? kept : single);
        inFlight.add(sending);
        void sending.finally(() => inFlight.delete(sending));
      }
      await delay(INTERVAL_MS, undefined, { signal: end.signal }).catch(() => undefined);
    }
    await Promise.all(inFlight);
  };
  const running = run();
  const finish = async () => {
    end.abort();
    await running;
    await Promise.all([kept.close(), single.close()]);
    return { sent, acknowledged, lost };
  };
  let results: Promise<BeatResults> | undefined;
  return {
    stop() {
      results ??= finish();
      return results;
    },
  };
}
