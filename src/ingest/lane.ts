// One lane: a connection of its own that writes one batch at a time, and knows after any failure whether the batch is
// there. A batch is written again only when its lane's row says that it is not.
import { newUuid } from '../domain/id.ts';
import { insertLane, readLane } from '../store/beats.ts';
import { openPipeline, type Pipeline } from '../store/pipeline.ts';
import type { BeatItem } from './apply-items.ts';
import { type BatchResult, runBeatTransaction } from './beat-transaction.ts';
import type { MonitorDirectory } from './monitor-directory.ts';

export interface LaneOptions {
  databaseUrl: string;
  directory: MonitorDirectory;
}

/** Shorter than a beat's patience, so that a hung connection is found while its beats can still be saved. */
const STATEMENT_TIMEOUT_MS = 2_500;

export class Lane {
  readonly #options: LaneOptions;
  readonly #laneId = newUuid();
  #batch = 0;
  #connection: Pipeline | undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /**
   * Writes the batch and returns when it is durable. Throws when it is not there; then it may be given again.
   * Throws `CommitUnknownError` when COMMIT was sent: `wasCommitted` tells, before anything else is written.
   */
  async write(items: readonly BeatItem[]): Promise<BatchResult> {
    const connection = await this.#connect();
    this.#batch += 1;
    const lane = { laneId: this.#laneId, batch: this.#batch, directory: this.#options.directory };
    try {
      return await runBeatTransaction(connection, items, lane);
    } catch (error) {
      // Whatever state the connection is in, a new one has none.
      this.#drop();
      throw error;
    }
  }

  /** Whether the batch that `write` gave up on is there. Throws while the database can't be asked. */
  async wasCommitted(): Promise<boolean> {
    const connection = await this.#connect();
    try {
      return (await readLane(connection, this.#laneId)) === this.#batch;
    } catch (error) {
      this.#drop();
      throw error;
    }
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  async #connect(): Promise<Pipeline> {
    if (this.#connection) return this.#connection;
    const { databaseUrl } = this.#options;
    const connection = await openPipeline(
      { databaseUrl, applicationName: 'beatkeeper-ingest', statementTimeoutMs: STATEMENT_TIMEOUT_MS },
      () => {
        if (this.#connection === connection) this.#connection = undefined;
      },
    );
    if (this.#batch === 0) await insertLane(connection, this.#laneId);
    this.#connection = connection;
    return connection;
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
