// Beats monitors without a pause and remembers the sequence of every acknowledged beat.
import type { Beaten, ProductClient } from './product-client.ts';

export class Ledger {
  readonly acknowledged = new Map<string, Set<number>>();
  failures = 0;
  readonly #client: ProductClient;
  readonly #monitors: readonly Beaten[];
  #isOver = false;
  #loops: Promise<unknown> = Promise.resolve();

  constructor(client: ProductClient, monitors: readonly Beaten[]) {
    this.#client = client;
    this.#monitors = monitors;
    for (const { monitorId } of monitors) this.acknowledged.set(monitorId, new Set());
  }

  get count(): number {
    return [...this.acknowledged.values()].reduce((sum, sequences) => sum + sequences.size, 0);
  }

  /** Beats each monitor in a loop of its own, `pauseMs` after each answer. */
  start(pauseMs: number): void {
    this.#loops = Promise.all(this.#monitors.map((monitor) => this.#beat(monitor, pauseMs)));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#loops;
  }

  /** Acknowledged beats that the database does not have. */
  async findMissing(): Promise<string[]> {
    const rows = await this.#client.query<{ monitor_id: string; sequences: string[] }>(
      `select m.monitor_id, array_agg(o.sequence) as sequences
       from observations o join monitors m using (project_id, monitor_key) group by m.monitor_id`,
    );
    const stored = new Map(rows.map((row) => [row.monitor_id, new Set(row.sequences.map(Number))]));
    const missing: string[] = [];
    for (const [monitorId, sequences] of this.acknowledged) {
      for (const sequence of sequences) {
        if (!stored.get(monitorId)?.has(sequence)) missing.push(`${monitorId} ${sequence}`);
      }
    }
    return missing;
  }

  async #beat(monitor: Beaten, pauseMs: number): Promise<void> {
    while (!this.#isOver) {
      const sequence = await this.#client.beat(monitor);
      if (sequence === undefined) this.failures += 1;
      else this.acknowledged.get(monitor.monitorId)?.add(sequence);
      // This is the pace of the load, not a wait for a state.
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
