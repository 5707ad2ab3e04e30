// What the measurements of deadlines and deliveries start from: a project whose alerts go to one endpoint, and the parts
// of a sweeper. The sweeper runs in this process, as it does in its role.
import { randomUUID } from 'node:crypto';
import { Registry } from 'prom-client';
import { parseAllowedDestinations } from '../src/delivery/webhook/allowed-destinations.ts';
import { createNameResolver } from '../src/delivery/webhook/name-resolver.ts';
import { newSigningSecret } from '../src/delivery/webhook/signature.ts';
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { SecretBox } from '../src/store/postgres/secret-box.ts';
import { DeadlineSweep } from '../src/sweeper/deadlines/sweep-deadlines.ts';
import { Dispatcher } from '../src/sweeper/deliveries/dispatcher.ts';
import { createSweeperMetrics } from '../src/sweeper/sweeper-metrics.ts';
import { createLog } from '../src/telemetry/log.ts';
import { type SeedProject, seedEndpoint, seedProject } from '../test/support/seed.ts';

export interface Installation {
  pool: Pool;
  project: SeedProject;
  secrets: SecretBox;
}

export interface Endpoint {
  endpointId: string;
  secret: string;
}

export async function openInstallation(databaseUrl: string): Promise<Installation> {
  const pool = openPool({ databaseUrl, size: 10, applicationName: 'bench', statementTimeoutMs: 600_000 });
  const secrets = new SecretBox([{ id: 'bench', key: Buffer.alloc(32, 1) }]);
  return { pool, project: await seedProject(pool), secrets };
}

/** An endpoint of the project; `isDefault`: all monitors' alerts go there. */
export async function addEndpoint(
  { pool, project, secrets }: Installation,
  url: string,
  isDefault = false,
): Promise<Endpoint> {
  const endpointId = `cb_${randomUUID().replaceAll('-', '')}`;
  const secret = newSigningSecret();
  const urlBox = secrets.seal(url, endpointId);
  const secretBox = secrets.seal(secret, endpointId);
  await seedEndpoint(pool, project, { endpointId, urlBox, secretBox, isDefault });
  return { endpointId, secret };
}

/** A default endpoint that nobody sends to. */
export async function addSilentEndpoint(installation: Installation): Promise<void> {
  await addEndpoint(installation, 'http://127.0.0.1:9/', true);
}

function makeParts() {
  return {
    metrics: createSweeperMetrics(new Registry()),
    log: createLog({ role: 'bench', level: 'error' }),
  };
}

export function makeSweep(pool: Pool, onTransitions?: () => void): DeadlineSweep {
  return new DeadlineSweep({ pool, minimumIntervalMs: 60_000, onTransitions, ...makeParts() });
}

export interface RunningDispatcher {
  /** Deliveries whose outcome is committed. */
  delivered(): Promise<number>;
  wake(): void;
  stop(): Promise<void>;
}

export function startDispatcher({ pool, secrets }: Installation): RunningDispatcher {
  const destinations = {
    allowed: parseAllowedDestinations('127.0.0.0/8'),
    resolver: createNameResolver(),
  };
  const parts = makeParts();
  const dispatcher = new Dispatcher({ pool, secrets, destinations, ...parts });
  return {
    async delivered() {
      const { values } = await parts.metrics.deliveries.get();
      return values.find(({ labels }) => labels.outcome === 'delivered')?.value ?? 0;
    },
    wake: () => dispatcher.wake(),
    stop: () => dispatcher.stop(),
  };
}

/** Milliseconds of processor time that this process took for `work`. */
export async function cpuMsOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** Where the log of Postgres ends, in bytes: the difference of two is what was written. */
export async function readWalBytes(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ bytes: number }>(
    "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as bytes",
  );
  return rows[0]?.bytes ?? 0;
}
