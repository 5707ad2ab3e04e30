// The role `sweeper`: puts its sweeps together, says when it is ready, and ends them in order. Any number of replicas
// share the work.
import { type ContextSettings, openContext } from '../service/calls/open-context.ts';
import { openPool } from '../store/postgres/pool.ts';
import type { Running } from '../telemetry/run-until-signal.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { DeadlineSweep } from './deadlines/sweep-deadlines.ts';
import { Dispatcher } from './deliveries/dispatcher.ts';
import { startSweepLoop } from './sweep-loop.ts';
import { createSweeperMetrics } from './sweeper-metrics.ts';
import { startHousekeeping } from './upkeep/housekeeping.ts';
import { findSchemaFault, waitForSchema } from './wait-for-schema.ts';

const DEADLINES_EVERY_MS = 200;
/** No sweep of deadlines for so long: this replica is of no use at the moment. */
const READY_WITHIN_MS = 10_000;
/** A sweep locks many monitors: if this process is stopped in it, their beats wait no longer than this. */
const IDLE_IN_TRANSACTION_MS = 2_000;
/** Moving rows out of a default partition may take its time. */
const HOUSEKEEPING_STATEMENT_MS = 60_000;

/** Begins to sweep as soon as the schema is there. Throws for settings that are not valid. */
export async function startSweeper(config: ContextSettings, telemetry: Telemetry): Promise<Running> {
  const { log, readiness, registry } = telemetry;
  const onError = (err: Error) => log.warn({ err }, 'A connection to the database broke.');
  const context = openContext(config, 'beatkeeper-sweeper', {
    onError,
    idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
  });
  const { pool, minimumIntervalSeconds } = context;
  const housePool = openPool({
    databaseUrl: config.databaseUrl,
    size: 2,
    applicationName: 'beatkeeper-housekeeping',
    statementTimeoutMs: HOUSEKEEPING_STATEMENT_MS,
    onError,
  });
  const metrics = createSweeperMetrics(registry);
  const shared = { pool, metrics, log };
  const stopped = new AbortController();
  let dispatcher: Dispatcher | undefined;
  const deadlines = new DeadlineSweep({
    ...shared,
    minimumIntervalMs: minimumIntervalSeconds * 1000,
    onTransitions: () => dispatcher?.wake(),
  });
  readiness.addCheck('schema', () => findSchemaFault(pool));
  readiness.addCheck('sweep', () => Promise.resolve(findSweepFault(deadlines)));

  const begin = async () => {
    if (!(await waitForSchema(pool, log, stopped.signal))) return [];
    dispatcher = new Dispatcher({ ...context, ...shared });
    const run = () => deadlines.run();
    const loop = startSweepLoop({ ...shared, name: 'deadlines', intervalMs: DEADLINES_EVERY_MS, run });
    log.info('Sweeping.');
    return [loop, dispatcher, startHousekeeping({ ...shared, pool: housePool })];
  };
  const workers = begin();
  return {
    async close() {
      stopped.abort();
      await Promise.all((await workers).map((worker) => worker.stop()));
      await Promise.all([pool.end(), housePool.end()]);
    },
  };
}

function findSweepFault({ lastRunAt }: DeadlineSweep): string | undefined {
  const isFresh = lastRunAt !== undefined && performance.now() - lastRunAt <= READY_WITHIN_MS;
  return isFresh ? undefined : 'No sweep of deadlines has ended lately.';
}
