// The role `sweeper`: sweeps each database of the installation, reports its readiness, and ends the sweeps in order. Any
// number of replicas share the work.
import type { BillingSource } from '../domain/billing.ts';
import { type ContextSettings, checkPlaces, openContext } from '../service/calls/open-context.ts';
import type { Running } from '../telemetry/run-until-signal.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { createDatabaseMetrics } from './database-metrics.ts';
import { endsWithin } from './ends-within.ts';
import { DatabaseSweep, type SweptDatabase } from './sweep-database.ts';
import { openDirectorySource } from './upkeep/directory-pools.ts';

/** A sweep locks many monitors. If this process is stopped within a transaction, their beats wait no longer than this. */
const IDLE_IN_TRANSACTION_MS = 2_000;
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
  const { databases } = context;
  const checks = checkPlaces(config, context, onError);
  const { databaseUrl, billingSource = 'static', places = [] } = config;
  const metricsOf = createDatabaseMetrics(registry, [
    'default',
    ...places.map(({ jurisdiction }) => jurisdiction),
  ]);
  const startSweep = (database: SweptDatabase) => {
    const { jurisdiction } = database;
    const metrics = metricsOf(jurisdiction ?? 'default');
    const itsLog = jurisdiction === undefined ? log : log.child({ database: jurisdiction });
    const sweep = new DatabaseSweep(database, { context, metrics, log: itsLog, billingSource, onError });
    sweep.addChecks(readiness);
    return sweep;
  };
  const directory = openDirectorySource(databaseUrl, onError);
  const sweeps = [
    startSweep({ databaseUrl, pool: databases.default }),
    ...databases.places.map((place) => startSweep({ ...place, directory })),
  ];
  return {
    async close() {
      if (!(await endsWithin(Promise.all(sweeps.map((sweep) => sweep.stop())), WORK_ENDS_MS))) {
        log.warn('Some work waits for the database. It is left undone: another process does it again.');
      }
      const ends = [checks.stop(), directory.end(), databases.end(), ...sweeps.map((sweep) => sweep.end())];
      await endsWithin(Promise.all(ends), CONNECTIONS_END_MS);
    },
  };
}
