// The beat path on a listening server of its own, for the tests of this room.
import Fastify, { type FastifyInstance } from 'fastify';
import { Batcher } from '../../src/ingest/batcher.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { registerPing } from '../../src/ingest/ping-routes.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';

export interface PingServer {
  url: string;
  pool: Pool;
  app: FastifyInstance;
  batcher: Batcher;
  close(): Promise<void>;
}

/** `hurries`: a beat waits as long as in the product, and not as long as no busy machine makes it wait. */
export async function startPingServer(
  databaseUrl: string,
  { lanes = 1, hurries = false, bodyTimeMs }: { lanes?: number; hurries?: boolean; bodyTimeMs?: number } = {},
): Promise<PingServer> {
  const pool = openPool({ databaseUrl, size: 4, applicationName: 'test' });
  const patience = hurries ? {} : { patienceMs: 60_000 };
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, ...patience });
  const batcher = new Batcher({
    directory,
    lanes: Array.from({ length: lanes }, () => new Lane(databaseUrl)),
    ...patience,
  });
  const app = Fastify({ forceCloseConnections: true });
  registerPing(app, { directory, batcher, bodyTimeMs });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return {
    url,
    pool,
    app,
    batcher,
    close: async () => {
      await app.close();
      await batcher.close();
      await pool.end();
    },
  };
}
