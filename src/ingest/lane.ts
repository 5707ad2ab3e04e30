// One lane: a connection of its own that writes one batch at a time, and knows after any failure whether the batch is
// there. A batch is written again only when its lane's row says that it is not.
import { newUuid } from '../domain/id.ts';
import { insertLane, LANE_SETTINGS, settleBatch } from '../store/beats/beats.ts';
import { openPipeline, type Pipeline } from '../store/postgres/pipeline.ts';
import type { Queryable } from '../store/postgres/pool.ts';

/** What a batch is written under. The batch's statements set `ingest_lanes.last_batch` to its number. */
export interface LaneBatch {
  laneId: string;
  batch: number;
}

/** Shorter than a beat's patience, so that a hung connection is found while its beats can still be saved. */
const STATEMENT_TIMEOUT_MS = 2_500;
/** Shorter than that: whoever waits for the locks of a process that was stopped has them in time. */
const IDLE_IN_TRANSACTION_MS = 2_000;

export class Lane {
  readonly #databaseUrl: string;
  readonly #laneId = newUuid();
  #batch = 0;
  #connection: Pipeline | undefined;

  constructor(databaseUrl: string) {
    this.#databaseUrl = databaseUrl;
  }

  /**
   * Runs one batch. When it throws, the connection is gone; whether the batch is there, `wasCommitted` tells, before
   * anything else is written.
   */
  async write<T>(work: (connection: Queryable, lane: LaneBatch) => Promise<T>): Promise<T> {
    // Before anything can fail: `wasCommitted` must ask for this batch, not for the one before.
    // By two: the number after a batch's own is the one that gives it up.
    this.#batch += 2;
    const connection = await this.#connect();
    try {
      return await work(connection, { laneId: this.#laneId, batch: this.#batch });
    } catch (error) {
      // Whatever state the connection is in, a new one has none.
      this.#drop();
      throw error;
    }
  }

  /**
   * Whether the batch that `write` gave up on is there; if not, it never will be. Throws while the database can't be
   * asked.
   */
  async wasCommitted(): Promise<boolean> {
    const connection = await this.#connect();
    try {
      return await settleBatch(connection, this.#laneId, this.#batch);
    } catch (error) {
      this.#drop();
      throw error;
    }
  }

  /** Another lane has lost the database: the connection of this idle one may be as dead, and nothing would tell. */
  distrust(): void {
    this.#drop();
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  async #connect(): Promise<Pipeline> {
    if (this.#connection) return this.#connection;
    // It may break in the moment in which it is there, before we have it.
    let connection: Pipeline | undefined;
    const forget = () => {
      if (this.#connection === connection) this.#connection = undefined;
    };
    connection = await openPipeline(
      {
        databaseUrl: this.#databaseUrl,
        applicationName: 'beatkeeper-ingest',
        statementTimeoutMs: STATEMENT_TIMEOUT_MS,
        idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
        settings: LANE_SETTINGS,
      },
      forget,
    );
    try {
      await insertLane(connection, this.#laneId);
    } catch (error) {
      // A standby lets us in and lets us write nothing: such connections would heap up.
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    return connection;
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
