// A connection that sends statements without waiting for the answers before: a transaction in few round trips.
// For one user at a time, which resets it after a statement that Postgres refused and discards it after any other error.
import type pg from 'pg';
import { connectionConfig, LimitedClient, type PoolOptions, type Queryable } from './pool.ts';

export interface Pipeline extends Queryable {
  /** Ends the transaction that a refused statement has left open. Throws when the connection can't be kept. */
  reset(): Promise<void>;
  /** Ends the session in order. */
  close(): Promise<void>;
  /** Closes the socket at once: a server that hangs would not answer. */
  destroy(): void;
}

/**
 * Connects, with `settings` as in `postgres -c`; `onLost` is called when the connection breaks while nobody uses it.
 */
export async function openPipeline(
  options: Omit<PoolOptions, 'size' | 'onError'> & { settings?: string },
  onLost: (error: Error) => void,
): Promise<Pipeline> {
  const client: pg.Client = new LimitedClient({
    ...connectionConfig(options),
    options: options.settings,
    pipeline: true,
  });
  client.on('error', onLost);
  try {
    await client.connect();
  } catch (error) {
    destroy(client);
    throw error;
  }
  return {
    query: client.query.bind(client) as Queryable['query'],
    reset: async () => {
      if (client.getTransactionStatus() !== 'I') await client.query('rollback');
    },
    close: () => client.end().catch(() => undefined),
    destroy: () => destroy(client),
  };
}

function destroy(client: pg.Client): void {
  client.end().catch(() => undefined);
  client.connection.stream.destroy();
}
