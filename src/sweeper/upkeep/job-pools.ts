// The connections of the periodic jobs, apart from those of deadlines and deliveries. A job that takes long delays the
// others, and fails none of them.
import type { Gate } from '../../store/postgres/gate.ts';
import { openPool, type Pool } from '../../store/postgres/pool.ts';
import type { JobDeps } from './job.ts';

const STATEMENT_MS = 60_000;
/** A statement that reads a whole default partition: no limit but against a connection that hangs. */
const SLOW_STATEMENT_MS = 6 * 3_600_000;

/** Two jobs of many statements (retention, observations of plans), and one for all the others. */
const CONNECTIONS = 3;
/** Each job that uses them has one: partitions, observation sums, usage. None waits for hours for another one. */
const SLOW_CONNECTIONS = 3;

export interface JobPools extends Pick<JobDeps, 'pool' | 'slowPool'> {
  end(): Promise<unknown>;
}

/** No connection is made before the first statement. `gate`: as in `PoolOptions`. */
export function openJobPools(databaseUrl: string, onError: (error: Error) => void, gate?: Gate): JobPools {
  const open = (size: number, statementTimeoutMs: number): Pool =>
    openPool({
      databaseUrl,
      size,
      applicationName: 'beatkeeper-housekeeping',
      statementTimeoutMs,
      // As long as the statements that it may wait for. A new connection has the usual time: a lease is renewed through one.
      busyTimeoutMs: STATEMENT_MS,
      gate,
      onError,
    });
  const pool = open(CONNECTIONS, STATEMENT_MS);
  const slowPool = open(SLOW_CONNECTIONS, SLOW_STATEMENT_MS);
  return { pool, slowPool, end: () => Promise.all([pool.end(), slowPool.end()]) };
}
