// The beat path on its own listening server.
import type { RequestListener } from 'node:http';
import Fastify from 'fastify';
import { makeServer } from '../../src/api/http/server.ts';
import { Batcher } from '../../src/ingest/batcher.ts';
import { ExcuseWriter } from '../../src/ingest/excuse-writer.ts';
import { Lane } from '../../src/ingest/lane.ts';
import { MonitorDirectory } from '../../src/ingest/monitor-directory.ts';
import { OpenBeats } from '../../src/ingest/open-beats.ts';
import { registerPing } from '../../src/ingest/ping-routes.ts';
import { openPool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { type SeedColumns, type SeedMonitor, seedMonitor } from '../support/seed.ts';

export interface PingServerOptions {
  /** Default 1. */
  lanes?: number;
  /** Beats wait as long as in the product. Default: a minute, so that a busy machine fails no test. */
  hasProductPatience?: boolean;
  /** Another patience. */
  patienceMs?: number;
  bodyTimeMs?: number;
  /** How long each request has lain unread. */
  waitedMs?: number;
  /** Connections are served as in the product. Default: as by Node. */
  hasProductServer?: boolean;
}

export interface PingServer {
  url: string;
  batcher: Batcher;
  openBeats: OpenBeats;
  close(): Promise<void>;
}

export interface PingFixture extends ProjectFixture {
  url: string;
  makeMonitor(columns?: SeedColumns): Promise<SeedMonitor>;
}

/** A project, and a server that accepts its beats. */
export async function openPingFixture(options: PingServerOptions = {}): Promise<PingFixture> {
  const fixture = await openProjectFixture();
  const server = await startPingServer(fixture.databaseUrl, options);
  return {
    ...fixture,
    url: server.url,
    makeMonitor: (columns) => seedMonitor(fixture.pool, fixture.project, columns),
    close: async () => {
      await server.close();
      await fixture.close();
    },
  };
}

export async function startPingServer(
  databaseUrl: string,
  {
    lanes = 1,
    hasProductPatience = false,
    patienceMs = 60_000,
    bodyTimeMs,
    waitedMs = 0,
    hasProductServer = false,
  }: PingServerOptions = {},
): Promise<PingServer> {
  const pool = openPool({ databaseUrl, size: 4, applicationName: 'test' });
  const patience = hasProductPatience ? {} : { patienceMs };
  const directory = new MonitorDirectory({ db: pool, minimumIntervalMs: 60_000, ...patience });
  const batcher = new Batcher({
    directory,
    lanes: Array.from({ length: lanes }, () => new Lane(databaseUrl)),
    ...patience,
  });
  const serverFactory = hasProductServer ? (handle: RequestListener) => makeServer(handle) : undefined;
  const app = Fastify({ forceCloseConnections: true, serverFactory });
  const openBeats = new OpenBeats();
  const excuses = new ExcuseWriter({ openBeats, lane: new Lane(databaseUrl), closeMs: 0 });
  registerPing(app, { directory, batcher, openBeats, bodyTimeMs, waitedMs: () => waitedMs });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return {
    url,
    batcher,
    openBeats,
    close: async () => {
      await app.close();
      await batcher.close();
      await excuses.close();
      await pool.end();
    },
  };
}
