// Applies the SQL files of ./migrations in order, forward only. Safe to run many times at once: an advisory lock
// lets one runner in, and what each file notes of itself commits with its statements.
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

/** One transaction. The migrations of a release have one version: a build works on a schema that is one version newer. */
export interface Migration {
  version: number;
  /** Sorts in the order of the migrations: `0004a-….sql`. */
  name: string;
}

const NO_MIGRATION: Migration = { version: 0, name: '' };

/** The migrations of this build, oldest first. Throws when file names are not 0001-name.sql, 0002a-, 0002b- … without gaps. */
export async function listMigrations(): Promise<Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith('.sql')).sort();
  let before = '0000';
  return names.map((name) => {
    const place = name.split('-', 1)[0] ?? '';
    if (!listNext(before).includes(place))
      throw new Error(`Migration ${name} is out of order: expected ${listNext(before).join(' or ')}.`);
    before = place;
    return { version: Number(place.slice(0, 4)), name };
  });
}

/** Of `0004a`: `0004b`, `0005`, `0005a`. */
function listNext(place: string): string[] {
  const [version, letter] = [Number(place.slice(0, 4)), place.slice(4)];
  const next = String(version + 1).padStart(4, '0');
  const step = letter && `${place.slice(0, 4)}${String.fromCharCode(letter.charCodeAt(0) + 1)}`;
  return [...(step ? [step] : []), next, `${next}a`];
}

/** The newest migration of this build. */
export async function findNewestMigration(): Promise<Migration> {
  return (await listMigrations()).at(-1) ?? NO_MIGRATION;
}

export function isOlder(one: Migration, other: Migration): boolean {
  return one.version < other.version || (one.version === other.version && one.name < other.name);
}

/** The version in words: `4b`. */
export function versionOf({ version, name }: Migration): string {
  return `${version}${/^\d{4}([a-z])-/.exec(name)?.[1] ?? ''}`;
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
  const known = migrations.at(-1)?.version ?? 0;
  const current = await readApplied(client);
  if (current.version > known) throw new DatabaseIsNewerError(current.version, known);
  for (const migration of migrations.filter((one) => isOlder(current, one))) {
    await applyMigration(client, migration);
    options.onApplied?.(migration);
  }
  if (isDistributed()) await distribute(client);
  await createFirstPartitions(client);
  if (options.applicationRole) await grant(client, options.applicationRole);
  return known;
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
    // One row a version: the build before counts rows, and accepts one more than it knows.
    await client.query(
      `insert into schema_migrations (version, name) values ($1, $2)
       on conflict (version) do update set name = excluded.name, applied_at = clock_timestamp()`,
      [migration.version, migration.name],
    );
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

/** The newest migration that a database has, with the version 0 where it has none. Readiness compares it with the build's. */
export async function readNewestMigration(db: Pick<pg.Pool, 'query'>): Promise<Migration> {
  const { rows } = await db.query<{ present: boolean }>(
    "select to_regclass('schema_migrations') is not null as present",
  );
  return rows[0]?.present ? await readApplied(db) : NO_MIGRATION;
}

async function readApplied(db: Pick<pg.Pool, 'query'>): Promise<Migration> {
  const { rows } = await db.query<Migration>(
    'select version, name from schema_migrations order by version desc limit 1',
  );
  return rows[0] ?? NO_MIGRATION;
}
