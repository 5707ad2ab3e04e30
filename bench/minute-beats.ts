// Beats of many one-minute monitors, each at its own moment of the minute and up to a second later, whatever the server
// does. Monitors may be held back, to change their state by hand.
import { Pool as UndiciPool } from 'undici';

const PERIOD_MS = 60_000;
const JITTER_MS = 1_000;
const TICK_MS = 20;
const CONNECTIONS = 64;

export class MinuteBeats {
  readonly #client: UndiciPool;
  readonly #paths: ReadonlyMap<string, string>;
  readonly #held = new Set<string>();
  /** In the order of their moments. */
  readonly #due: readonly { monitorId: string; atMs: number }[];
  #next = 0;
  #round = 0;
  #timer: NodeJS.Timeout | undefined;
  sent = 0;
  /** Answers other than 2xx, and broken connections. */
  failures = 0;

  /** `paths`: of the beats, by the id of the monitor. */
  constructor(apiUrl: string, paths: ReadonlyMap<string, string>) {
    this.#client = new UndiciPool(apiUrl, { connections: CONNECTIONS });
    this.#paths = paths;
    const betweenMs = PERIOD_MS / paths.size;
    this.#due = [...paths.keys()].map((monitorId, place) => ({ monitorId, atMs: place * betweenMs }));
  }

  start(): void {
    const startedMs = performance.now();
    this.#timer = setInterval(() => this.#serve(performance.now() - startedMs), TICK_MS);
  }

  /** They get no beats of this until `release`. */
  hold(monitorIds: Iterable<string>): void {
    for (const monitorId of monitorIds) this.#held.add(monitorId);
  }

  release(): void {
    this.#held.clear();
  }

  /**
   * Sends a beat of this kind (`/fail`, `''`) to each, as many at once as there are connections. Resolves with the moment at
   * which each went out. Throws if one is refused.
   */
  async sendAll(monitorIds: readonly string[], kind: string): Promise<Map<string, number>> {
    const sentAtMs = new Map<string, number>();
    const rest = monitorIds.values();
    const sendRest = async () => {
      for (const monitorId of rest) {
        sentAtMs.set(monitorId, performance.now());
        await this.#send(monitorId, kind);
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, sendRest));
    return sentAtMs;
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#client.close();
  }

  #serve(elapsedMs: number): void {
    for (;;) {
      const due = this.#due[this.#next];
      if (due === undefined || this.#round * PERIOD_MS + due.atMs > elapsedMs) return;
      this.#next += 1;
      if (this.#next === this.#due.length) {
        this.#next = 0;
        this.#round += 1;
      }
      setTimeout(() => void this.#beat(due.monitorId), Math.random() * JITTER_MS);
    }
  }

  async #beat(monitorId: string): Promise<void> {
    if (this.#held.has(monitorId)) return;
    this.sent += 1;
    await this.#send(monitorId, '').catch(() => {
      this.failures += 1;
    });
  }

  async #send(monitorId: string, kind: string): Promise<void> {
    const path = `${this.#paths.get(monitorId)}${kind}`;
    const { statusCode, body } = await this.#client.request({ method: 'GET', path });
    await body.dump();
    if (statusCode >= 300) throw new Error(`A beat was answered with ${statusCode}.`);
  }
}
