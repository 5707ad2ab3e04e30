// Nothing is swept before the migrations of this build are applied: somebody else applies them, in their own time.
import { setTimeout as delay } from 'node:timers/promises';
import { listMigrations, readSchemaVersion } from '../store/postgres/migrate.ts';
import type { Pool } from '../store/postgres/pool.ts';
import type { Log } from '../telemetry/log.ts';

const POLL_MS = 1_000;

/** What the schema lacks, in a sentence; undefined when it is this build's or newer. Rejects without a database. */
export async function findSchemaFault(pool: Pool): Promise<string | undefined> {
  const known = (await listMigrations()).length;
  const found = await readSchemaVersion(pool);
  if (found >= known) return undefined;
  return `The schema has version ${found}, this build needs ${known}: run migrate.`;
}

/** True when the schema is there; false when `signal` ended the wait. Never rejects. */
export async function waitForSchema(pool: Pool, log: Log, signal: AbortSignal): Promise<boolean> {
  let told: string | undefined;
  while (!signal.aborted) {
    const fault = await findSchemaFault(pool).catch((error: Error) => `The database: ${error.message}`);
    if (fault === undefined) return true;
    if (fault !== told) log.warn({ fault }, 'Waiting for the schema.');
    told = fault;
    await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
  return false;
}
