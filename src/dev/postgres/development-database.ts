// Chooses the database of a development run: a durable Postgres server of the run's own, or the one of DATABASE_URL.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { endRunProcesses } from '../processes/run-processes.ts';
import type { ProcessSpec } from '../processes/supervisor.ts';
import type { State } from '../state.ts';
import { findPostgresBinaries } from './postgres-binaries.ts';
import { POSTGRES_SUPERUSER, postgresUrl, preparePostgres, waitForPostgres } from './postgres-server.ts';

const DATABASE = 'beatkeeper';
/** The product's one database role here. It owns the database and is no superuser, as that of `migrate` in production. */
const OWNER = 'beatkeeper';

export interface DevelopmentDatabase {
  /** The process to start; undefined for the server of DATABASE_URL. */
  server?: ProcessSpec;
  /** The URL for the roles. */
  databaseUrl: string;
  /** The URL for people and scripts, with which they may inspect everything and create databases. */
  adminUrl: string;
  /** Resolves when the server answers and the database exists. */
  waitUntilReady(signal: AbortSignal): Promise<void>;
}

const START_LIMIT_MS = 60_000;

/** Throws an Error with advice if there is no Postgres for this machine. */
export async function openDevelopmentDatabase(
  state: State,
  givenUrl: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<DevelopmentDatabase> {
  if (givenUrl !== undefined) {
    const waitUntilReady = (signal: AbortSignal) => waitForPostgres(givenUrl, START_LIMIT_MS, signal);
    return { databaseUrl: givenUrl, adminUrl: givenUrl, waitUntilReady };
  }
  const binaries = await findPostgresBinaries();
  if (binaries === undefined) {
    throw new Error('npm has no Postgres for this machine: set DATABASE_URL to a database of your own.');
  }
  const port = await state.port('postgres');
  const { adminPassword, databasePassword } = state.values;
  const dataFolder = state.path('postgres');
  const command = await preparePostgres({
    binaries,
    dataFolder,
    port,
    password: adminPassword,
    durable: true,
    env,
  });
  const adminUrl = (database: string) => postgresUrl(port, POSTGRES_SUPERUSER, adminPassword, database);
  return {
    server: {
      ...command,
      name: 'postgres',
      role: 'postgres',
      env,
      endSignal: 'SIGINT', // Postgres then shuts down without waiting for clients
      endMs: 3_000,
      beforeStart: () => clearDataFolder(dataFolder),
    },
    databaseUrl: postgresUrl(port, OWNER, databasePassword, DATABASE),
    adminUrl: adminUrl(DATABASE),
    async waitUntilReady(signal) {
      await waitForPostgres(adminUrl('postgres'), START_LIMIT_MS, signal);
      await createDatabase(adminUrl('postgres'), databasePassword);
    },
  };
}

// After a SIGKILL of the server its children may live for a moment and prevent the next start, and its pid file may
// name a process that is not Postgres. The lock of the state guarantees that no other run uses this folder.
async function clearDataFolder(dataFolder: string): Promise<void> {
  if (process.platform !== 'linux') return; // elsewhere the pauses between starts must suffice
  await endRunProcesses({ folder: dataFolder }, 500);
  await rm(join(dataFolder, 'postmaster.pid'), { force: true });
}

async function createDatabase(adminUrl: string, password: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl });
  await client.connect();
  try {
    const role = await client.query('select 1 from pg_roles where rolname = $1', [OWNER]);
    const verb = role.rowCount === 0 ? 'create' : 'alter';
    await client.query(`${verb} role ${OWNER} login password ${client.escapeLiteral(password)}`);
    const database = await client.query('select 1 from pg_database where datname = $1', [DATABASE]);
    if (database.rowCount === 0) await client.query(`create database ${DATABASE} owner ${OWNER}`);
  } finally {
    await client.end();
  }
}
