// Connections to Postgres. Every statement has a time limit on our side, because the driver would wait on a half-open
// socket for ever.
import pg from 'pg';
import { afterReading } from './after-reading.ts';
import { HUNG, isHungConnection } from './database-error.ts';
import { type Gate, GateClosed } from './gate.ts';

export interface PoolOptions {
  databaseUrl: string;
  /** Most connections. */
  size: number;
  applicationName: string;
  /** Longest statement, ms; default 5,000. */
  statementTimeoutMs?: number;
  /** Longest wait for a new connection, ms; default 3,000. */
  connectTimeoutMs?: number;
  /** Longest wait for a busy connection of a pool, ms; default that for a new one. */
  busyTimeoutMs?: number;
  /**
   * How long a transaction may wait for its next statement, ms; default 4,000. A stopped process holds its locks for
   * that long, and beats that wait for them have 8 s.
   */
  idleInTransactionMs?: number;
  /** While it is closed nothing connects, statements fail with `GateClosed`, and connections end; default: always open. */
  gate?: Gate;
  onError?: (error: Error) => void;
}

export type Pool = pg.Pool;
export type Connection = pg.PoolClient;
/** What a query runs on: the pool (one statement, its own transaction) or a connection inside a transaction. */
export type Queryable = Pick<pg.Pool, 'query'>;
/** What statements and transactions run on: a pool, or somebody's share of one. */
export interface Database extends Queryable {
  connect(): Promise<Connection>;
}

// bigint (oid 20) as number: sequences, milliseconds and versions stay below 2^53.
const types = new pg.TypeOverrides();
types.setTypeParser(pg.types.builtins.INT8, (text) => Number(text));

interface LimitedConfig extends pg.ClientConfig {
  gate?: Gate;
}

/** The settings of every connection (a `LimitedClient`), in a pool or by itself (the beat path's lanes). */
export function connectionConfig(
  options: Omit<PoolOptions, 'size' | 'busyTimeoutMs' | 'onError'>,
): LimitedConfig {
  const limitMs = options.statementTimeoutMs ?? 5_000;
  return {
    connectionString: options.databaseUrl,
    application_name: options.applicationName,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 3_000,
    statement_timeout: limitMs,
    // A hung socket never answers: give up a second after the server itself should have.
    query_timeout: limitMs + 1_000,
    idle_in_transaction_session_timeout: options.idleInTransactionMs ?? 4_000,
    keepAlive: true,
    types,
    gate: options.gate,
  };
}

/** The longest that a timer can wait: 24 days. */
const NO_LIMIT_MS = 2 ** 31 - 1;

type Done = (error: Error | null | undefined, result?: unknown) => void;

/**
 * Fails a statement that is not answered within `query_timeout`, and closes its connection: it hangs. The driver's own
 * limit also fails a statement whose answer waits in the socket because the event loop has stood still.
 */
export class LimitedClient extends pg.Client {
  readonly #limitMs: number;
  readonly #gate: Gate | undefined;
  #underWay = 0;
  #isOver = false;

  /** Whether its gate has closed since it was opened: it takes no statement any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  constructor({ gate, ...config }: LimitedConfig = {}) {
    super({ ...config, query_timeout: undefined });
    this.#limitMs = config.query_timeout ?? NO_LIMIT_MS;
    this.#gate = gate;
  }

  /** With and without a callback. `never`: assignable to each result that the base class declares. */
  override connect(done?: unknown): never {
    const refusal = this.#gate?.refusal();
    if (!refusal) this.#passGate();
    if (typeof done === 'function') {
      if (refusal) return process.nextTick(done as Done, refusal) as never;
      return super.connect(done as (error: Error) => void) as never;
    }
    return (refusal ? Promise.reject(refusal) : super.connect()) as never;
  }

  /** Its address may lead to another database when the gate opens again, or its role have other settings. */
  #passGate(): void {
    const end = () => {
      this.#isOver = true;
      this.#endIfOver();
    };
    this.#gate?.pass(end);
    this.once('end', () => this.#gate?.leave(end));
  }

  /** Not before the answers have come, such as that to a COMMIT. */
  #endIfOver(): void {
    if (this.#isOver && this.#underWay === 0) this.connection.stream.destroy();
  }

  #overRefusal(): GateClosed | undefined {
    return this.#isOver ? new GateClosed('The connection was opened before the last check.') : undefined;
  }

  /** Every form that the pool and its users call. `never`: assignable to each result that the base class declares. */
  override query(statement: unknown, values?: unknown, done?: unknown): never {
    if (typeof values === 'function') return this.#ask(statement, undefined, values as Done) as never;
    if (typeof done === 'function') return this.#ask(statement, values, done as Done) as never;
    return this.#promise(statement, values) as never;
  }

  async #promise(statement: unknown, values: unknown): Promise<unknown> {
    try {
      return await new Promise((resolve, reject) => {
        this.#ask(statement, values, (error, result) => (error ? reject(error) : resolve(result)));
      });
    } catch (error) {
      // The stack of the caller, not that of the socket.
      Error.captureStackTrace(error as Error);
      throw error;
    }
  }

  #ask(statement: unknown, values: unknown, done: Done): void {
    const refusal = this.#gate?.refusal() ?? this.#overRefusal();
    if (refusal) {
      process.nextTick(done, refusal);
      return;
    }
    let isDone = false;
    const finish: Done = (error, result) => {
      if (isDone) return;
      isDone = true;
      this.#underWay -= 1;
      clearTimeout(limit);
      this.#endIfOver();
      done(error, result);
    };
    const giveUp = () => {
      if (isDone) return;
      finish(new Error(HUNG));
      this.connection.stream.destroy();
    };
    const limit = setTimeout(() => afterReading(giveUp), this.#limitMs);
    this.#underWay += 1;
    try {
      super.query(statement as string, values as unknown[], finish);
    } catch (error) {
      finish(error as Error);
    }
  }
}

/** Opens a pool; no connection is made before the first query. */
export function openPool(options: PoolOptions): Pool {
  const config = connectionConfig(options);
  const { busyTimeoutMs = config.connectionTimeoutMillis } = options;
  const pool = new pg.Pool({
    ...config,
    // The driver has one limit for both: that of a pool holds for its own wait, that of a client for its connection.
    connectionTimeoutMillis: busyTimeoutMs,
    Client: class extends LimitedClient {
      constructor() {
        super(config);
      }
    },
    max: options.size,
    idleTimeoutMillis: 30_000,
  });
  // An idle connection that breaks is replaced by the next query; without a listener it would end the process.
  pool.on('error', (error) => options.onError?.(error));
  // So would a connection that breaks between two statements of a transaction. The next statement reports the failure.
  pool.on('connect', (client) => {
    client.on('error', (error) => options.onError?.(error));
  });
  pool.on('release', (error, client) => {
    // The pool keeps no client that was told to end: it opens a new one for who waits.
    if (client instanceof LimitedClient && client.isOver) client.end().catch(() => undefined);
    // When one connection hangs the idle ones hang as well, and each would cost its next user a whole time-out.
    if (error && isHungConnection(error)) dropIdle(pool);
  });
  return pool;
}

/** Takes every idle connection, which the pool hands out at once, and closes it. */
function dropIdle(pool: Pool): void {
  for (let left = pool.idleCount; left > 0; left -= 1) {
    pool.connect((_error, client, release) => {
      if (client) release(true);
    });
  }
}
