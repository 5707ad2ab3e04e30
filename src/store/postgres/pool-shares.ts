// Connections of a pool, shared by who needs them (the projects of calls): the statements of one that asks for very many
// wait, and those of others are served in turns.
import { ProblemError } from '../../domain/problem.ts';
import { Shares } from '../../domain/shares.ts';
import type { Connection, Database, Pool } from './pool.ts';

/** For one connection. Longer than a statement may take: what waits for a lock gives its turn up before. */
const LONGEST_WAIT_MS = 10_000;
/** In the line of one holder. Who comes to a full one is refused at once. */
const MOST_WAITING = 1_000;

export class PoolShares {
  readonly #turns = new Map<Pool, ConnectionTurns>();

  /** How many transactions and single statements wait for a connection. */
  get waiting(): number {
    return [...this.#turns.values()].reduce((sum, turns) => sum + turns.waiting, 0);
  }

  /**
   * The pool, for the statements of one holder: each transaction and each single statement waits for its turn. They throw
   * `DatabaseBusy` when it does not come in time, or too many wait already. Never wait for a second connection while you hold one.
   */
  of(pool: Pool, holder: string): Database {
    const turns = this.#turns.get(pool) ?? new ConnectionTurns(pool.options.max);
    this.#turns.set(pool, turns);
    return new SharedDatabase(pool, turns, holder);
  }
}

class SharedDatabase implements Database {
  readonly #pool: Pool;
  readonly #turns: ConnectionTurns;
  readonly #holder: string;

  constructor(pool: Pool, turns: ConnectionTurns, holder: string) {
    this.#pool = pool;
    this.#turns = turns;
    this.#holder = holder;
  }

  /** Every form with a promise. `never`: assignable to each result that the pool declares. */
  query(statement: unknown, values?: unknown): never {
    return this.#query(statement as string, values as unknown[]) as never;
  }

  async #query(statement: string, values?: unknown[]): Promise<unknown> {
    await this.#turns.take(this.#holder);
    try {
      return await this.#pool.query(statement, values);
    } finally {
      this.#turns.giveBack(this.#holder);
    }
  }

  async connect(): Promise<Connection> {
    await this.#turns.take(this.#holder);
    try {
      const connection = await this.#pool.connect();
      // The pool sets it anew for each user of the connection.
      const { release } = connection;
      connection.release = (broken) => {
        release(broken);
        this.#turns.giveBack(this.#holder);
      };
      return connection;
    } catch (error) {
      this.#turns.giveBack(this.#holder);
      throw error;
    }
  }
}

type Begin = () => void;

/** A holder has fewer connections than are free. Those who wait get one each, one after the other. */
class ConnectionTurns {
  readonly #shares: Shares;
  /** In the order of the turns; a holder has none without one that waits. */
  readonly #waiting = new Map<string, Set<Begin>>();

  constructor(connections: number) {
    this.#shares = new Shares(connections);
  }

  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, { size }) => sum + size, 0);
  }

  async take(holder: string): Promise<void> {
    // Whoever waits has no room, so nobody is overtaken.
    if (this.#shares.roomFor(holder) > 0) this.#shares.take(holder);
    else await this.#wait(holder);
  }

  giveBack(holder: string): void {
    this.#shares.giveBack(holder);
    for (let next = this.#next(); next !== undefined; next = this.#next()) this.#begin(...next);
  }

  #wait(holder: string): Promise<void> {
    const line = this.#waiting.get(holder) ?? new Set();
    if (line.size >= MOST_WAITING) return Promise.reject(new DatabaseBusy());
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(limit);
        resolve();
      };
      const limit = setTimeout(() => {
        this.#leave(holder, begin);
        reject(new DatabaseBusy());
      }, LONGEST_WAIT_MS);
      this.#waiting.set(holder, line.add(begin));
    });
  }

  #next(): [string, Begin] | undefined {
    for (const [holder, [begin]] of this.#waiting) {
      if (begin && this.#shares.roomFor(holder) > 0) return [holder, begin];
    }
    return undefined;
  }

  #begin(holder: string, begin: Begin): void {
    this.#shares.take(holder);
    const line = this.#leave(holder, begin);
    // The others come first.
    if (line && this.#waiting.delete(holder)) this.#waiting.set(holder, line);
    begin();
  }

  /** Returns who of the holder waits still. */
  #leave(holder: string, begin: Begin): Set<Begin> | undefined {
    const line = this.#waiting.get(holder);
    line?.delete(begin);
    if (line?.size === 0) this.#waiting.delete(holder);
    return this.#waiting.get(holder);
  }
}

/** The refusal of a turn. */
export class DatabaseBusy extends ProblemError {
  constructor() {
    super('temporarily_unavailable', {
      detail:
        'The database is busy with other calls: send fewer at the same time, or wait for Retry-After, then try again.',
      retryAfterSeconds: 2,
    });
  }
}
