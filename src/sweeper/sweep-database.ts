// All sweeps of one database: its deadlines, its deliveries and its periodic jobs. An installation whose jurisdictions have
// databases of their own has several, and none of them waits for another one.
import { setTimeout as delay } from 'node:timers/promises';
import type { BillingSource } from '../domain/billing.ts';
import type { Jurisdiction } from '../domain/monitor.ts';
import type { ServiceContext } from '../service/calls/context.ts';
import { findDurabilityFault, findSchemaFault } from '../store/postgres/database-faults.ts';
import type { Gate } from '../store/postgres/gate.ts';
import type { Pool } from '../store/postgres/pool.ts';
import type { Log } from '../telemetry/log.ts';
import type { Readiness } from '../telemetry/readiness.ts';
import { endRests, type RestSweepOptions } from './deadlines/end-rests.ts';
import { MonitorFaults } from './deadlines/monitor-faults.ts';
import { DeadlineSweep, type DeadlineSweepOptions } from './deadlines/sweep-deadlines.ts';
import { Dispatcher } from './deliveries/dispatcher.ts';
import { startSweepLoop } from './loop.ts';
import type { SweeperMetrics } from './sweeper-metrics.ts';
import { startDirectoryCopies, startReports } from './upkeep/directory-loops.ts';
import { openDirectoryCopy } from './upkeep/directory-pools.ts';
import type { Job } from './upkeep/job.ts';
import { type JobPools, openJobPools } from './upkeep/job-pools.ts';
import { listJobs, startPeriodicJobs } from './upkeep/periodic-jobs.ts';

const DEADLINES_EVERY_MS = 200;
/** As often as calls and beats look how their organization stands. */
const RESTS_EVERY_MS = 5_000;
/** A replica that has finished no sweep of deadlines for this long is of no use at the moment. */
const READY_WITHIN_MS = 10_000;
const SCHEMA_POLL_MS = 1_000;

export interface SweptDatabase {
  databaseUrl: string;
  /** For deadlines and deliveries. The caller ends it. */
  pool: Pool;
  /** Undefined: the default database. */
  jurisdiction?: Jurisdiction;
  /** Of a jurisdiction: as in `Home`. */
  gate?: Gate;
  /** Of a jurisdiction: to the default database, from which its directory is copied. */
  directory?: Pool;
}

export interface SweepDeps {
  context: ServiceContext;
  metrics: SweeperMetrics;
  log: Log;
  billingSource: BillingSource;
  onError: (error: Error) => void;
}

interface Worker {
  stop(): Promise<void>;
}

export class DatabaseSweep {
  readonly #database: SweptDatabase;
  readonly #deps: SweepDeps;
  readonly #stopped = new AbortController();
  readonly #jobPools: JobPools;
  /** Of a jurisdiction: for its copies. */
  readonly #copyPool: Pool | undefined;
  readonly #watched: DeadlineSweepOptions & RestSweepOptions;
  readonly #deadlines: DeadlineSweep;
  readonly #workers: Promise<Worker[][]>;
  #dispatcher: Dispatcher | undefined;

  /** Sweeps as soon as the schema is there, and the gate is open. */
  constructor(database: SweptDatabase, deps: SweepDeps) {
    const { databaseUrl, pool, gate, directory } = database;
    const { context, metrics, log, onError } = deps;
    this.#database = database;
    this.#deps = deps;
    this.#jobPools = openJobPools(databaseUrl, onError, gate);
    this.#copyPool = directory && openDirectoryCopy(databaseUrl, onError);
    this.#watched = {
      ...{ pool, metrics, faults: new MonitorFaults({ log, metrics }) },
      minimumIntervalMs: context.minimumIntervalSeconds * 1000,
      onTransitions: () => this.#dispatcher?.wake(),
      signal: this.#stopped.signal,
    };
    this.#deadlines = new DeadlineSweep(this.#watched);
    this.#workers = Promise.all([this.#startCopies(), this.#start()]);
  }

  /** Those of the default database have no suffix. A fault of another one is no reason to restart or to replace the process. */
  addChecks(readiness: Readiness): void {
    const { pool, jurisdiction, gate } = this.#database;
    const suffix = jurisdiction === undefined ? '' : `_${jurisdiction}`;
    const options = jurisdiction === undefined ? {} : { isAdvice: true };
    readiness.addCheck(
      `database${suffix}`,
      async () => gate?.fault ?? (await findDurabilityFault(pool)),
      options,
    );
    readiness.addCheck(`schema${suffix}`, () => findSchemaFault(pool), options);
    readiness.addCheck(`sweep${suffix}`, () => Promise.resolve(findSweepFault(this.#deadlines)), options);
  }

  /** Waits for the work under way. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await Promise.all((await this.#workers).flat().map((worker) => worker.stop()));
  }

  /** Ends the connections of the jobs and copies. */
  async end(): Promise<void> {
    await Promise.all([this.#jobPools.end(), this.#copyPool?.end()]);
  }

  /** Whoever copies claims the place: all else waits for that. */
  async #startCopies(): Promise<Worker[]> {
    const { jurisdiction, directory } = this.#database;
    const { metrics, log } = this.#deps;
    const pool = this.#copyPool;
    if (!jurisdiction || !directory || !pool) return [];
    if (!(await waitForSchema(pool, log, this.#stopped.signal))) return [];
    return [startDirectoryCopies(directory, { jurisdiction, pool }, { metrics, log })];
  }

  async #start(): Promise<Worker[]> {
    const { pool, jurisdiction, directory } = this.#database;
    const { context, metrics, log } = this.#deps;
    if (!(await waitForSchema(pool, log, this.#stopped.signal))) return [];
    const shared = { pool, metrics, log };
    this.#dispatcher = new Dispatcher({ ...context, ...shared });
    const run = () => this.#deadlines.run();
    const loop = startSweepLoop({ ...shared, name: 'deadlines', intervalMs: DEADLINES_EVERY_MS, run });
    const rests = startSweepLoop({
      ...{ ...shared, name: 'rests', intervalMs: RESTS_EVERY_MS },
      run: () => endRests(this.#watched),
    });
    const { secrets, findPlan } = context;
    const { pool: jobPool, slowPool } = this.#jobPools;
    const deps = { metrics, log, secrets, findPlan, pool: jobPool, slowPool };
    const workers: Worker[] = [loop, rests, this.#dispatcher, startPeriodicJobs(this.#jobs(), deps)];
    if (jurisdiction && directory)
      workers.push(...startReports(directory, { jurisdiction, pool: jobPool }, { metrics, log, secrets }));
    log.info('Sweeping.');
    return workers;
  }

  /** Standings of organizations are decided in the default database. */
  #jobs(): readonly Job[] {
    return listJobs(this.#database.jurisdiction === undefined ? this.#deps.billingSource : 'static');
  }
}

/**
 * Another process applies the migrations, and the gate of a place opens once it is known whose it is. True when a sweep may
 * begin; false when `signal` ended the wait.
 */
async function waitForSchema(pool: Pool, log: Log, signal: AbortSignal): Promise<boolean> {
  let logged: string | undefined;
  while (!signal.aborted) {
    const fault = await findSchemaFault(pool).catch((error: Error) => `The database: ${error.message}`);
    if (fault === undefined) return true;
    if (fault !== logged) log.warn({ fault }, 'Waiting for the database.');
    logged = fault;
    await delay(SCHEMA_POLL_MS, undefined, { signal }).catch(() => undefined);
  }
  return false;
}

function findSweepFault({ lastRunAt }: DeadlineSweep): string | undefined {
  const isFresh = lastRunAt !== undefined && performance.now() - lastRunAt <= READY_WITHIN_MS;
  return isFresh ? undefined : 'No sweep of deadlines has ended lately.';
}
