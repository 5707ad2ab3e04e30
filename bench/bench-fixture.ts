// A project for the benchmarks of deadlines and deliveries, and a sweeper's dispatcher in this process.
import { openPool, type Pool } from '../src/store/postgres/pool.ts';
import { SecretBox } from '../src/store/postgres/secret-box.ts';
import type { Dispatcher } from '../src/sweeper/deliveries/dispatcher.ts';
import type { ProjectFixture } from '../test/support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../test/support/make-config.ts';
import { type SeedEndpoint, seedEndpoint, seedProject } from '../test/support/seed.ts';
import { makeParts, startDispatcher } from '../test/support/sweeper-fixture.ts';

export type BenchFixture = Pick<ProjectFixture, 'pool' | 'project' | 'secrets'>;

export async function openBenchFixture(databaseUrl: string): Promise<BenchFixture> {
  const pool = openPool({ databaseUrl, size: 10, applicationName: 'bench', statementTimeoutMs: 600_000 });
  return { pool, project: await seedProject(pool), secrets: new SecretBox([ENCRYPTION_KEY]) };
}

export async function seedEndpoints(
  fixture: BenchFixture,
  url: string,
  count: number,
): Promise<SeedEndpoint[]> {
  const seeded: SeedEndpoint[] = [];
  for (let place = 0; place < count; place += 1) seeded.push(await seedEndpoint(fixture, url));
  return seeded;
}

/** The body of a delivery, as long as that of a usual alert. */
export const BODY = JSON.stringify({ type: 'incident.opened', data: 'x'.repeat(850) });

export interface CountedDispatcher {
  dispatcher: Dispatcher;
  /** Delivered messages whose outcome is committed. */
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

/** Milliseconds of processor time that this process uses for `work`. */
export async function cpuMsOf(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** The end of the write-ahead log, in bytes: the difference of two is what was written between them. */
export async function readWalBytes(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ bytes: number }>(
    "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint as bytes",
  );
  return rows[0]?.bytes ?? 0;
}
