// The role `sweeper`: waits for the schema, starts the sweeps, reports its readiness, and ends the sweeps in order.
// Any number of replicas share the work.
import { setTimeout as delay } from 'node:timers/promises';
import type { BillingSource } from '../domain/billing.ts';
import { type ContextSettings, openContext } from '../service/calls/open-context.ts';
import { findDurabilityFault, findSchemaFault } from '../store/postgres/database-faults.ts';
import { openPool, type Pool } from '../store/postgres/pool.ts';
import type { Log } from '../telemetry/log.ts';
import type { Running } from '../telemetry/run-until-signal.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { DeadlineSweep } from './deadlines/sweep-deadlines.ts';
import { Dispatcher } from './deliveries/dispatcher.ts';
import { endsWithin } from './ends-within.ts';
import { startSweepLoop } from './loop.ts';
import { createSweeperMetrics } from './sweeper-metrics.ts';
import { listJobs, startPeriodicJobs } from './upkeep/periodic-jobs.ts';

const DEADLINES_EVERY_MS = 200;
/** A replica that has finished no sweep of deadlines for this long is of no use at the moment. */
const READY_WITHIN_MS = 10_000;
/** A sweep locks many monitors. If this process is stopped within a transaction, their beats wait no longer than this. */
const IDLE_IN_TRANSACTION_MS = 2_000;
const JOB_STATEMENT_MS = 60_000;
/** A statement that reads a whole default partition: no limit but against a connection that hangs. */
const SLOW_STATEMENT_MS = 6 * 3_600_000;
const SCHEMA_POLL_MS = 1_000;
/** A dispatcher takes 20 s at most (`Dispatcher.stop`). A job may wait for hours for its statement. */
const WORK_ENDS_MS = 21_000;
const CONNECTIONS_END_MS = 1_000;
/** The longest end of the role, ms: shorter than that of its process. */
export const CLOSE_LIMIT_MS = WORK_ENDS_MS + CONNECTIONS_END_MS;

export interface SweeperConfig extends ContextSettings {
  /** Default: `static`. */
  billingSource?: BillingSource;
}

/** Starts to sweep as soon as the schema is there. Throws for settings that are not valid. */
export async function startSweeper(config: SweeperConfig, telemetry: Telemetry): Promise<Running> {
  const { log, readiness, registry } = telemetry;
  const onError = (err: Error) => log.warn({ err }, 'A connection to the database broke.');
  const context = openContext(config, 'beatkeeper-sweeper', {
    onError,
    idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
  });
  const { databases, minimumIntervalSeconds, secrets, findPlan } = context;
  const jobParts = { secrets, findPlan };
  const pool = databases.default;
  const openJobPool = (size: number, statementTimeoutMs: number) =>
    openPool({
      databaseUrl: config.databaseUrl,
      size,
      applicationName: 'beatkeeper-housekeeping',
      statementTimeoutMs,
      onError,
    });
  const jobPool = openJobPool(2, JOB_STATEMENT_MS);
  const slowPool = openJobPool(2, SLOW_STATEMENT_MS);
  const metrics = createSweeperMetrics(registry);
  const shared = { pool, metrics, log };
  const stopped = new AbortController();
  let dispatcher: Dispatcher | undefined;
  const deadlines = new DeadlineSweep({
    ...shared,
    minimumIntervalMs: minimumIntervalSeconds * 1000,
    onTransitions: () => dispatcher?.wake(),
    signal: stopped.signal,
  });
  readiness.addCheck('database', () => findDurabilityFault(pool));
  readiness.addCheck('schema', () => findSchemaFault(pool));
  readiness.addCheck('sweep', () => Promise.resolve(findSweepFault(deadlines)));

  const start = async () => {
    if (!(await waitForSchema(pool, log, stopped.signal))) return [];
    dispatcher = new Dispatcher({ ...context, ...shared });
    const run = () => deadlines.run();
    const loop = startSweepLoop({ ...shared, name: 'deadlines', intervalMs: DEADLINES_EVERY_MS, run });
    log.info('Sweeping.');
    const jobs = listJobs(config.billingSource ?? 'static');
    return [loop, dispatcher, startPeriodicJobs(jobs, { ...shared, ...jobParts, pool: jobPool, slowPool })];
  };
  const workers = start();
  return {
    async close() {
      stopped.abort();
      const ends = workers.then((all) => Promise.all(all.map((worker) => worker.stop())));
      if (!(await endsWithin(ends, WORK_ENDS_MS))) {
        log.warn('Some work waits for the database. It is left undone: another process does it again.');
      }
      await endsWithin(Promise.all([pool.end(), jobPool.end(), slowPool.end()]), CONNECTIONS_END_MS);
    },
  };
}

/** Another process applies the migrations. True when they are applied; false when `signal` ended the wait. */
async function waitForSchema(pool: Pool, log: Log, signal: AbortSignal): Promise<boolean> {
  let logged: string | undefined;
  while (!signal.aborted) {
    const fault = await findSchemaFault(pool).catch((error: Error) => `The database: ${error.message}`);
    if (fault === undefined) return true;
    if (fault !== logged) log.warn({ fault }, 'Waiting for the schema.');
    logged = fault;
    await delay(SCHEMA_POLL_MS, undefined, { signal }).catch(() => undefined);
  }
  return false;
}

function findSweepFault({ lastRunAt }: DeadlineSweep): string | undefined {
  const isFresh = lastRunAt !== undefined && performance.now() - lastRunAt <= READY_WITHIN_MS;
  return isFresh ? undefined : 'No sweep of deadlines has ended lately.';
}
