// Very many monitors, made inside Postgres.
import type { Pool } from '../src/store/postgres/pool.ts';
import type { SeedProject } from '../test/support/seed.ts';

/** The id and the name of a monitor, by its place in the list from 1 on. */
export const nameOf = (place: number) => `mon-${String(place).padStart(7, '0')}`;

/** Makes active monitors with an interval and a grace of five minutes. Returns the paths of their beats. */
export async function seedManyMonitors(pool: Pool, project: SeedProject, count: number): Promise<string[]> {
  await pool.query(
    `create unlogged table bench_seed as
     select 'mon-' || lpad(n::text, 7, '0') as name, n, gen_random_uuid() as key, gen_random_uuid() as address
     from generate_series(1, ${count}) n`,
  );
  const { projectId } = project;
  await pool.query(
    `insert into monitors (project_id, monitor_key, monitor_id, name, name_key, interval_seconds, publish_address)
     select $1, key, name, name, name, 300, address from bench_seed`,
    [projectId],
  );
  await pool.query(
    `insert into monitor_live (project_id, monitor_key, sweep_bucket, configuration_version, changed_xid)
     select $1, key, n % 64, 1, '3' from bench_seed`,
    [projectId],
  );
  await pool.query(
    `insert into publish_addresses (address, project_id, monitor_key) select address, $1, key from bench_seed`,
    [projectId],
  );
  const { rows } = await pool.query<{ path: string }>(`select '/ping/' || address as path from bench_seed`);
  await pool.query('drop table bench_seed');
  await pool.query('vacuum analyze monitors, monitor_live, publish_addresses');
  // Addresses are random, so their order is.
  return rows.map(({ path }) => path).sort();
}
