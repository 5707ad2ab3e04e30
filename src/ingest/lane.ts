// One lane: a connection of its own that writes one batch at a time and finds out, after a failure, whether the batch was
// committed. A batch is written again only when Postgres refused its statement, or the lane's row shows that it was not.
import { newUuid } from '../domain/id.ts';
import { insertLane, LANE_SETTINGS, LANE_SETTINGS_OF_SHARDS, settleBatch } from '../store/beats/beats.ts';
import { isRefusedStatement } from '../store/postgres/database-error.ts';
import { isDistributed } from '../store/postgres/engine.ts';
import type { Gate } from '../store/postgres/gate.ts';
import { openPipeline, type Pipeline } from '../store/postgres/pipeline.ts';
import type { Queryable } from '../store/postgres/pool.ts';
import { newKeyInShard } from '../store/postgres/shards.ts';

/** Identifies a batch. The batch's own statements set `ingest_lanes.last_batch` to its number. */
export interface LaneBatch {
  laneId: string;
  batch: number;
}

/** Shorter than a beat's patience: a hung connection is found while its beats can still be written. */
const STATEMENT_TIMEOUT_MS = 2_500;
/** Shorter than the statement's limit: a waiter gets the locks of a stopped process in time. */
const IDLE_IN_TRANSACTION_MS = 2_000;

export class Lane {
  readonly #databaseUrl: string;
  readonly #gate: Gate | undefined;
  /** Of the batch that was begun last. Undefined: its shard could not be entered, and nothing of it was sent. */
  #laneId: string | undefined;
  /** A row in each shard that the lane has written to. A database without shards has one row. */
  readonly #rows = new Map<number | undefined, string>();
  #batch = 0;
  #connection: Pipeline | undefined;

  /** `gate`: as in `PoolOptions`. */
  constructor(databaseUrl: string, gate?: Gate) {
    this.#databaseUrl = databaseUrl;
    this.#gate = gate;
    this.#laneId = newUuid();
    this.#rows.set(undefined, this.#laneId);
  }

  /** Connects ahead of the first batch. Throws while the database is away; the batch connects then. */
  async connect(): Promise<void> {
    await this.#connect();
  }

  /**
   * Runs one batch, all of one shard where the database has shards. If it throws, call `wasCommitted` before anything
   * else is written, unless `isRefusedStatement` shows that nothing is.
   */
  async write<T>(work: (connection: Queryable, lane: LaneBatch) => Promise<T>, shard?: number): Promise<T> {
    // Before anything can fail: `wasCommitted` must ask for this batch, not for the last one. By two: the number after a
    // batch's own gives the batch up.
    this.#batch += 2;
    this.#laneId = this.#rows.get(shard);
    const connection = await this.#connect();
    try {
      const laneId = this.#laneId ?? (await this.#enter(connection, shard));
      return await work(connection, { laneId, batch: this.#batch });
    } catch (error) {
      await this.#recover(connection, error);
      throw error;
    }
  }

  /**
   * Whether the batch that failed in `write` was committed. If not, it never will be. Throws while the database can't
   * be asked.
   */
  async wasCommitted(): Promise<boolean> {
    if (this.#laneId === undefined) return false;
    const connection = await this.#connect();
    try {
      return await settleBatch(connection, this.#laneId, this.#batch);
    } catch (error) {
      await this.#recover(connection, error);
      throw error;
    }
  }

  /** Another lane has lost the database: this idle connection may be dead too, without a sign. */
  distrust(): void {
    this.#drop();
  }

  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.close();
  }

  /** Gives the lane its row in a shard. */
  async #enter(connection: Queryable, shard: number | undefined): Promise<string> {
    const laneId = shard === undefined ? newUuid() : await newKeyInShard(connection, shard);
    await insertLane(connection, laneId);
    this.#rows.set(shard, laneId);
    this.#laneId = laneId;
    return laneId;
  }

  async #connect(): Promise<Pipeline> {
    if (this.#connection) return this.#connection;
    // The connection may break before `openPipeline` has returned it.
    let connection: Pipeline | undefined;
    const forget = () => {
      if (this.#connection === connection) this.#connection = undefined;
    };
    connection = await openPipeline(
      {
        databaseUrl: this.#databaseUrl,
        gate: this.#gate,
        applicationName: 'beatkeeper-ingest',
        statementTimeoutMs: STATEMENT_TIMEOUT_MS,
        idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
        settings: isDistributed() ? LANE_SETTINGS_OF_SHARDS : LANE_SETTINGS,
      },
      forget,
    );
    try {
      if (this.#laneId !== undefined) await insertLane(connection, this.#laneId);
    } catch (error) {
      // A standby accepts the connection and refuses writes: such connections would pile up.
      connection.destroy();
      throw error;
    }
    this.#connection = connection;
    return connection;
  }

  /** Keeps the connection after a refused statement. After any other error it may be in any state; a new one has none. */
  async #recover(connection: Pipeline, error: unknown): Promise<void> {
    if (!isRefusedStatement(error)) return this.#drop();
    await connection.reset().catch(() => this.#drop());
  }

  #drop(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }
}
