// Whether the database is what BEATKEEPER_DATABASE_ENGINE says: statements for the other engine fail, or lock what they must
// not (docs/adr/0012).
import { isDistributed } from './engine.ts';
import type { Queryable } from './pool.ts';

/** The column `shard_key` is made in the transaction that distributes the tables, and in no other one. */
const PROBE = `select to_regclass('live_changes') is not null as has_tables,
  exists (select from pg_extension where extname = 'citus') as has_citus,
  exists (select from pg_attribute where attrelid = to_regclass('live_changes') and attname = 'shard_key') as is_distributed`;

interface Found {
  has_tables: boolean;
  has_citus: boolean;
  is_distributed: boolean;
}

async function probe(db: Queryable): Promise<Found> {
  const { rows } = await db.query<Found>(PROBE);
  const [found] = rows;
  if (!found) throw new Error('The catalog of the database returned no row.');
  return found;
}

const IS_CITUS =
  'The tables are spread over a Citus cluster: set BEATKEEPER_DATABASE_ENGINE to citus for migrate, api and sweeper.';
const IS_POSTGRES =
  'The tables are those of one Postgres: set BEATKEEPER_DATABASE_ENGINE to postgres for migrate, api and sweeper.';
const IS_UNFINISHED = 'The tables are not spread over the Citus cluster yet: run migrate to its end.';
const LACKS_CITUS =
  'The database has no extension citus: create it on each machine of the cluster, or set BEATKEEPER_DATABASE_ENGINE to postgres.';

/** What to set, in a sentence; undefined where the setting is right, or there are no tables yet. */
export async function findEngineFault(db: Queryable): Promise<string | undefined> {
  const found = await probe(db);
  if (!found.has_tables || found.is_distributed === isDistributed()) return undefined;
  if (found.is_distributed) return IS_CITUS;
  return found.has_citus ? IS_UNFINISHED : IS_POSTGRES;
}

/**
 * Throws where `migrate` would change the engine of an installation, before it changes anything. A run that ended before it
 * distributed the tables goes on: nobody has written into them.
 */
export async function requireEngine(db: Queryable): Promise<void> {
  const found = await probe(db);
  if (!isDistributed()) {
    if (found.is_distributed) throw new Error(IS_CITUS);
    return;
  }
  if (!found.has_citus) throw new Error(LACKS_CITUS);
  if (!found.has_tables || found.is_distributed) return;
  const { rows } = await db.query<{ is_used: boolean }>(
    'select exists (select from organizations) as is_used',
  );
  if (rows[0]?.is_used) throw new Error(IS_POSTGRES);
}
