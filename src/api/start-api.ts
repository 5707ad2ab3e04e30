// The role `api`: builds the application, listens, keeps the service clock, and ends in order.
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { Server } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { BillingSource } from '../domain/billing.ts';
import { type ContextSettings, checkPlaces, openContext } from '../service/calls/open-context.ts';
import { findDurabilityFault, findSchemaFault } from '../store/postgres/database-faults.ts';
import type { Gate } from '../store/postgres/gate.ts';
import { openPool, type Pool } from '../store/postgres/pool.ts';
import { readNow } from '../store/postgres/transaction.ts';
import type { Running } from '../telemetry/run-until-signal.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { buildApp } from './app.ts';
import type { TrustedIssuer } from './auth/session-token.ts';
import type { OpenCallLimits } from './http/open-calls.ts';
import { ServedCertificate } from './http/served-certificate.ts';
import { type IngestClock, startIngest } from './ingest.ts';
import { startServiceClock } from './service-clock.ts';

/** Longest wait for calls that run when the end begins; what is left then is cut, and beats have time to be written. */
const CLOSE_LIMIT_MS = 14_000;
const IDLE_CHECK_MS = 100;
/** Short: a connection that hangs is replaced before the api looks as if it were away for long. */
const CLOCK_STATEMENT_MS = 2_000;
/** Shorter than a check of readiness may take. */
const HEALTH_STATEMENT_MS = 1_000;

export interface ApiConfig extends ContextSettings {
  host: string;
  /** 0 picks a free one. */
  port: number;
  /** With `tls.crt` and `tls.key`: then it speaks https. */
  tlsFolder?: string;
  issuers: readonly TrustedIssuer[];
  dashboardOrigin?: string;
  /** Where plans and service states come from; default: the values of the installation. */
  billingSource?: BillingSource;
  /** With `stripe`. */
  stripeWebhookSecret?: string;
  /** Where balancers send to this api; default: host name and port. */
  instanceName?: string;
  /** Open connections at most; below the descriptor limit. */
  maxConnections: number;
  /** As in `AppDeps`; tests, which run on any machine, set it to 0. */
  maxEventLoopDelayMs?: number;
  /** As in `AppDeps`; tests set it to few. */
  openCalls?: OpenCallLimits;
}

export interface RunningApi extends Running {
  port: number;
}

/** Listens and returns. Rejects when the port is taken, or the database would lose acknowledged beats in a crash. */
export async function startApi(config: ApiConfig, telemetry: Telemetry): Promise<RunningApi> {
  const { log, readiness } = telemetry;
  const warn = (err: Error) => log.warn({ err }, 'A connection to the database broke.');
  const context = openContext(config, 'beatkeeper-api', { onError: warn });
  const places = checkPlaces(config, context, warn);
  // Connections of their own: a busy pool must look neither like an outage nor like a database that is away, for which
  // balancers would send no beats to any api. And the clock may wait for a lock.
  const openOne = (name: string, databaseUrl: string, statementTimeoutMs: number, gate?: Gate) =>
    openPool({
      databaseUrl,
      gate,
      size: 1,
      applicationName: `beatkeeper-${name}`,
      statementTimeoutMs,
      onError: warn,
    });
  const ingest = startIngest(config, context, telemetry);
  const watched = ingest.clocks.map(({ databaseUrl, ...clock }) => ({
    ...clock,
    clockPool: openOne('clock', databaseUrl, CLOCK_STATEMENT_MS, clock.gate),
    healthPool: openOne('health', databaseUrl, HEALTH_STATEMENT_MS),
  }));
  const endPools = async () => {
    const pools = watched.flatMap(({ clockPool, healthPool }) => [clockPool.end(), healthPool.end()]);
    await Promise.all([places.stop(), context.databases.end(), ...pools]);
  };
  try {
    const certificate = config.tlsFolder ? await ServedCertificate.read(config.tlsFolder) : undefined;
    await Promise.all([requireDurableCommits(context.databases.default, log), places.looked()]);
    const { issuers, dashboardOrigin, maxEventLoopDelayMs, openCalls } = config;
    const tls = certificate?.options;
    const shared = { context, telemetry, issuers, dashboardOrigin, maxEventLoopDelayMs, openCalls, tls };
    const stripeWebhookSecret = config.billingSource === 'stripe' ? config.stripeWebhookSecret : undefined;
    const app = await buildApp({ ...shared, stripeWebhookSecret, mount: ingest.mount });
    app.server.maxConnections = config.maxConnections;
    // A database that is away now is no reason to wait.
    await Promise.allSettled([ingest.prepare(), ...watched.map(({ clockPool }) => readNow(clockPool))]);
    await app.listen({ host: config.host, port: config.port, backlog: 4_096 });
    const { port } = app.server.address() as AddressInfo;
    if (app.server instanceof Server) certificate?.keepFresh(app.server, log);
    // Before, the process is still starting.
    for (const home of watched) addChecks(readiness, home);
    const address = config.instanceName ?? `${hostname()}:${port}`;
    const clocks = watched.map(({ clockPool: pool, openBeats, arrivals }) =>
      startServiceClock({ pool, log, address, openBeats, arrivals }),
    );
    log.info({ port }, 'Listening.');
    const end = async () => {
      for (const clock of clocks) clock.leave();
      certificate?.stop();
      await closeApp(app);
      await ingest.close();
      // Last: it says that nothing is left.
      await Promise.all(clocks.map((clock) => clock.stop()));
      await endPools();
    };
    let ended: Promise<void> | undefined;
    return {
      port,
      close() {
        ended ??= end();
        return ended;
      },
    };
  } catch (error) {
    await ingest.close();
    await endPools();
    throw error;
  }
}

interface Watched extends Pick<IngestClock, 'jurisdiction' | 'gate'> {
  healthPool: Pool;
}

/**
 * A database that is away is away for every api: if they were unready for it, beats would reach none of them, and none could
 * remember that it had to refuse them (docs/contract/deadlines.md). A fault in the database of one jurisdiction is no reason to
 * refuse the others.
 */
function addChecks(
  readiness: Telemetry['readiness'],
  { healthPool: pool, jurisdiction, gate }: Watched,
): void {
  const options = jurisdiction === undefined ? { allowsSilence: true } : { isAdvice: true };
  const suffix = jurisdiction === undefined ? '' : `_${jurisdiction}`;
  readiness.addCheck(
    `database${suffix}`,
    async () => gate?.fault ?? (await findDurabilityFault(pool)),
    options,
  );
  readiness.addCheck(`schema${suffix}`, () => findSchemaFault(pool), options);
}

/** Stops accepting, lets calls finish, and cuts what does not. */
async function closeApp(app: FastifyInstance): Promise<void> {
  const limit = setTimeout(() => app.server.closeAllConnections(), CLOSE_LIMIT_MS);
  // A connection that falls idle after the end has begun would be kept for its next call.
  const idle = setInterval(() => app.server.closeIdleConnections(), IDLE_CHECK_MS);
  try {
    await app.close();
  } finally {
    clearTimeout(limit);
    clearInterval(idle);
  }
}

/** A database that is away now is asked again by readiness: the start does not wait for it. */
async function requireDurableCommits(pool: Pool, log: Telemetry['log']): Promise<void> {
  const fault = await findDurabilityFault(pool).catch((err: unknown) => {
    log.warn({ err }, 'The database does not answer yet.');
    return undefined;
  });
  if (fault !== undefined) throw new Error(fault);
}
