// The driver's client with a time limit of ours for each answer. The driver's own limit (`query_timeout`) fails a
// statement whose answer already waits in the socket when the event loop has stood still for longer than the limit.
import pg from 'pg';
import { afterReading } from './after-reading.ts';
import { HUNG } from './database-error.ts';

type Done = (error: Error | null | undefined, result?: unknown) => void;

/** Fails a statement that is not answered within `query_timeout`, and closes its connection: it hangs. */
export class LimitedClient extends pg.Client {
  readonly #limitMs: number;

  constructor(config: pg.ClientConfig = {}) {
    super({ ...config, query_timeout: undefined });
    this.#limitMs = config.query_timeout ?? 0;
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
    let isDone = false;
    const finish: Done = (error, result) => {
      if (isDone) return;
      isDone = true;
      clearTimeout(limit);
      done(error, result);
    };
    const giveUp = () => {
      if (isDone) return;
      finish(new Error(HUNG));
      this.connection.stream.destroy();
    };
    const limit = setTimeout(() => afterReading(giveUp), this.#limitMs);
    super.query(statement as string, values as unknown[], finish);
  }
}
