// What the benchmarks of deadlines and deliveries start from: a project, and the parts of a sweeper. The sweeper runs in
// this process, as it does in its role.
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { SecretBox } from '../src/store/postgres/secret-box.ts';
import type { Dispatcher } from '../src/sweeper/deliveries/dispatcher.ts';
import type { ProjectFixture } from '../test/support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../test/support/make-config.ts';
import { seedProject } from '../test/support/seed.ts';
import { makeParts, startDispatcher } from '../test/support/sweeper-fixture.ts';

export type BenchFixture = Pick<ProjectFixture, 'pool' | 'project' | 'secrets'>;

export async function openBenchFixture(databaseUrl: string): Promise<BenchFixture> {
  const pool = openPool({ databaseUrl, size: 10, applicationName: 'bench', statementTimeoutMs: 600_000 });
  return { pool, project: await seedProject(pool), secrets: new SecretBox([ENCRYPTION_KEY]) };
}

/** The body of a delivery, as long as that of a usual alert. */
export const BODY = JSON.stringify({ type: 'incident.opened', data: 'x'.repeat(850) });

export interface CountedDispatcher {
  dispatcher: Dispatcher;
  /** Deliveries whose outcome is committed. */
  delivered(): Promise<number>;
}

export function startCountedDispatcher(fixture: BenchFixture): CountedDispatcher {
  const parts = makeParts();
  return {
    dispatcher: startDispatcher(fixture, parts),
    async delivered() {
      const { values } = await parts.metrics.deliveries.get();
      return values.find(({ labels }) => labels.outcome === 'delivered')?.value ?? 0;
    },
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
