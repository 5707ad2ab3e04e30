// Why a database cannot serve this build. Each rejects while the database is away.
import { findEngineFault } from './engine-fault.ts';
import { findNewestMigration, isOlder, readNewestMigration, versionOf } from './migrate.ts';
import type { Queryable } from './pool.ts';

/** What is wrong with the schema, in a sentence; undefined when it is this build's or newer, and for the engine of the setting. */
export async function findSchemaFault(pool: Queryable): Promise<string | undefined> {
  const needed = await findNewestMigration();
  const found = await readNewestMigration(pool);
  if (!isOlder(found, needed)) return await findEngineFault(pool);
  return `The database has schema version ${versionOf(found)}, but this build needs ${versionOf(needed)}: run the role migrate.`;
}

/** Whether the schema is this build's, neither older nor newer: a statement that it refuses is at fault itself. */
export async function hasSchemaOfBuild(db: Queryable): Promise<boolean> {
  const [found, known] = [await readNewestMigration(db), await findNewestMigration()];
  return !isOlder(found, known) && !isOlder(known, found);
}

/** Why an answered beat could be lost (docs/contract/beats.md); undefined where every commit is durable. */
export async function findDurabilityFault(pool: Queryable): Promise<string | undefined> {
  const { rows } = await pool.query<{ setting: string }>(
    "select current_setting('synchronous_commit') as setting",
  );
  if (rows[0]?.setting !== 'off') return undefined;
  return 'The database has synchronous_commit = off, so an acknowledged beat could be lost: set it to on for the database, or for the user who connects.';
}
