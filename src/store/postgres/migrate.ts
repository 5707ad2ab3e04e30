// Applies the SQL files of ./migrations in order, forward only. Safe to run many times at once: an advisory lock
// lets one runner in, and each file's version row commits with its statements.
import { readdir, readFile } from 'node:fs/promises';
import pg from 'pg';
import { grantApplicationRole } from './application-role.ts';
import { codeOf, SQLSTATE } from './database-error.ts';
import { distributeTables } from './distribute.ts';
import { isDistributed } from './engine.ts';
import { requireEngine } from './engine-fault.ts';
import { namingHolders } from './lock-wait.ts';
import { createPartitions, PARTITIONED_TABLES } from './partitions.ts';

const LOCK_KEY = 7_302_551_117;
const FOLDER = new URL('../migrations/', import.meta.url);

export interface Migration {
  version: number;
  name: string;
}

/** The migrations of this build, oldest first. Throws when file names are not 0001-name.sql … without gaps. */
export async function listMigrations(): Promise<Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort();
  return names.map((name, index) => {
    const version = Number(name.slice(0, 4));
    if (version !== index + 1) throw new Error(`Migration ${name} is out of order: expected ${index + 1}.`);
    return { version, name };
  });
}

/** Longest wait for a lock on a table: what comes meanwhile waits behind it, and a beat has 8 s. */
const TABLE_LOCK_MS = 4_000;
/** Longest silence before the connection is tested: a statement may be long, and a server that is gone says nothing. */
const KEEP_ALIVE_MS = 10_000;

export interface MigrateOptions {
  databaseUrl: string;
  /** The role that `api` and `sweeper` connect as, if `databaseUrl` names another one. */
  applicationRole?: string;
  /** Longest wait for a lock, such as that of another runner, ms; default 60,000. */
  lockTimeoutMs?: number;
  onApplied?: (migration: Migration) => void;
  /** Ends the connection, whatever waits for an answer on it. */
  signal?: AbortSignal;
}

/**
 * Brings the schema up to this build's version and returns that version.
 * Throws `DatabaseIsNewerError` when the database has a migration that this build doesn't know, and `LockHeld` where a lock is
 * not free in time. Changes nothing where the database has another engine than the setting.
 */
export async function migrate(options: MigrateOptions): Promise<number> {
  const { lockTimeoutMs = 60_000 } = options;
  const client = new pg.Client({
    connectionString: options.databaseUrl,
    application_name: 'beatkeeper-migrate',
    connectionTimeoutMillis: 5_000,
    lock_timeout: lockTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  });
  // Without a listener a connection that breaks would end the process; the statement that waits on it fails as well.
  client.on('error', () => undefined);
  // A statement under way fails with its connection: a server that hangs would never answer it.
  const end = () => void client.end().catch(() => undefined);
  options.signal?.addEventListener('abort', end, { once: true });
  await client.connect();
  try {
    return await namingHolders(client, LOCK_KEY, async () => {
      await client.query('select pg_advisory_lock($1)', [LOCK_KEY]);
      await client.query(`set lock_timeout = ${Math.min(lockTimeoutMs, TABLE_LOCK_MS)}`);
      return await bringUp(client, options);
    });
  } finally {
    options.signal?.removeEventListener('abort', end);
    await client.end();
  }
}

/** The caller has the lock of migrations. */
async function bringUp(client: pg.Client, options: MigrateOptions): Promise<number> {
  const migrations = await listMigrations();
  await requireEngine(client);
  await client.query(
    'create table if not exists schema_migrations (version integer primary key, name text not null, applied_at timestamptz not null default clock_timestamp())',
  );
  const { rows } = await client.query<{ version: number }>(
    'select coalesce(max(version), 0) as version from schema_migrations',
  );
  const current = rows[0]?.version ?? 0;
  if (current > migrations.length) throw new DatabaseIsNewerError(current, migrations.length);
  for (const migration of migrations.slice(current)) {
    await applyMigration(client, migration);
    options.onApplied?.(migration);
  }
  if (isDistributed()) await distribute(client);
  await createFirstPartitions(client);
  if (options.applicationRole) await grant(client, options.applicationRole);
  return migrations.length;
}

/**
 * The first beats must not land in the default partition. If a lock is not free, or rows are in the default partition
 * already, the sweeper does it later.
 */
async function createFirstPartitions(client: pg.Client): Promise<void> {
  for (const table of PARTITIONED_TABLES) {
    const { failures } = await createPartitions(client, table);
    const failure = failures.find((error) => !LATER.has(codeOf(error) ?? ''));
    if (failure) throw failure;
  }
}

const LATER: ReadonlySet<string> = new Set([
  SQLSTATE.lockNotAvailable,
  SQLSTATE.checkViolation,
  SQLSTATE.queryCanceled,
]);

/** All tables or none: a run that dies between two of them leaves a database whose statements fail. */
async function distribute(client: pg.Client): Promise<void> {
  await client.query('begin');
  await distributeTables(client);
  await client.query('commit');
}

async function grant(client: pg.Client, role: string): Promise<void> {
  await client.query('begin');
  await grantApplicationRole(client, role);
  await client.query('commit');
}

async function applyMigration(client: pg.Client, migration: Migration): Promise<void> {
  const sql = await readFile(new URL(migration.name, FOLDER), 'utf8');
  await client.query('begin');
  try {
    await client.query('insert into schema_migrations (version, name) values ($1, $2)', [
      migration.version,
      migration.name,
    ]);
    await client.query(sql);
    await client.query('commit');
  } catch (error) {
    // Of a connection that is broken there is nothing to roll back, and the reason is the first error.
    await client.query('rollback').catch(() => undefined);
    throw new Error(`Migration ${migration.name} failed: ${(error as Error).message}`, { cause: error });
  }
}

/** The database was migrated by a newer build. */
export class DatabaseIsNewerError extends Error {
  readonly found: number;
  readonly known: number;

  constructor(found: number, known: number) {
    super(
      `The database has schema version ${found}, this build knows ${known}: run a newer Beatkeeper, or restore a backup.`,
    );
    this.name = 'DatabaseIsNewerError';
    this.found = found;
    this.known = known;
  }
}

/** Schema version of a database, 0 when it has none. For readiness: older than the build is not ready. */
export async function readSchemaVersion(db: Pick<pg.Pool, 'query'>): Promise<number> {
  const { rows } = await db.query<{ present: boolean }>(
    "select to_regclass('schema_migrations') is not null as present",
  );
  if (!rows[0]?.present) return 0;
  const found = await db.query<{ version: number }>(
    'select coalesce(max(version), 0) as version from schema_migrations',
  );
  return found.rows[0]?.version ?? 0;
}
