// A database with an organization and a project, and the parts of a sweeper on it.
import { randomBytes, randomUUID } from 'node:crypto';
import { Registry } from 'prom-client';
import { parseAllowedDestinations } from '../../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../../src/delivery/webhook/name-resolver.ts';
import { newSigningSecret } from '../../src/delivery/webhook/signature.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { DeadlineSweep } from '../../src/sweeper/deadlines/sweep-deadlines.ts';
import { Dispatcher, type DispatcherOptions } from '../../src/sweeper/deliveries/dispatcher.ts';
import type { RunResult } from '../../src/sweeper/loop.ts';
import { createSweeperMetrics } from '../../src/sweeper/sweeper-metrics.ts';
import { createLog } from '../../src/telemetry/log.ts';
import { createTestDatabase, openTestPool } from './database.ts';
import { type SeedProject, seedEndpoint, seedProject } from './seed.ts';

export const KEY = { id: 'k1', key: randomBytes(32) };

export interface SweeperFixture {
  url: string;
  pool: Pool;
  project: SeedProject;
  secrets: SecretBox;
  close(): Promise<void>;
}

export async function openSweeperFixture(): Promise<SweeperFixture> {
  const database = await createTestDatabase();
  const pool = openTestPool(database.url, 6);
  const project = await seedProject(pool);
  const secrets = new SecretBox([KEY]);
  return {
    url: database.url,
    pool,
    project,
    secrets,
    async close() {
      await pool.end();
      await database.drop();
    },
  };
}

export interface Endpoint {
  endpointId: string;
  secret: string;
}

/** An endpoint of the project with one secret; `isDefault`: all monitors' alerts go there. */
export async function addEndpoint(
  { pool, project, secrets }: SweeperFixture,
  url: string,
  isDefault = false,
): Promise<Endpoint> {
  const endpointId = `cb_${randomUUID().replaceAll('-', '')}`;
  const secret = newSigningSecret();
  await seedEndpoint(pool, project, {
    endpointId,
    urlBox: secrets.seal(url, endpointId),
    secretBox: secrets.seal(secret, endpointId),
    isDefault,
  });
  return { endpointId, secret };
}

/** The api's clock stands at `toMs`; without it, at the database's now. */
export async function moveClock(pool: Pool, toMs?: number): Promise<void> {
  await pool.query(
    `insert into service_clock (last_ms) values (coalesce($1, (extract(epoch from clock_timestamp()) * 1000)::bigint))
     on conflict (only_row) do update set last_ms = excluded.last_ms`,
    [toMs],
  );
}

export async function readNowMs(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms',
  );
  return rows[0]?.ms ?? 0;
}

export function makeParts() {
  return {
    metrics: createSweeperMetrics(new Registry()),
    log: createLog({ role: 'test', level: process.env.TEST_LOG_LEVEL ?? 'silent' }),
  };
}

export function makeSweep(pool: Pool, batchSize?: number): DeadlineSweep {
  return new DeadlineSweep({ pool, minimumIntervalMs: 60_000, batchSize, ...makeParts() });
}

/** Rounds until nothing is due. */
export async function drain(step: { run(): Promise<RunResult> }): Promise<void> {
  while ((await step.run()) === 'more');
}

export function startDispatcher(
  fixture: SweeperFixture,
  options: Partial<DispatcherOptions> = {},
): Dispatcher {
  return new Dispatcher({
    pool: fixture.pool,
    secrets: fixture.secrets,
    destinations: {
      allowed: parseAllowedDestinations('127.0.0.0/8'),
      resolver: createNameResolver(),
    },
    pollMs: 20,
    ...makeParts(),
    ...options,
  });
}
