// A connection that sends statements without waiting for the answers before: a transaction in few round trips.
// For one user at a time, which discards it after any error.
import pg from 'pg';
import { connectionConfig, type PoolOptions, type Queryable } from './pool.ts';

export interface Pipeline extends Queryable {
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
  const client = new pg.Client({
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
    close: () => client.end().catch(() => undefined),
    destroy: () => destroy(client),
  };
}

function destroy(client: pg.Client): void {
  client.end().catch(() => undefined);
  client.connection.stream.destroy();
}
