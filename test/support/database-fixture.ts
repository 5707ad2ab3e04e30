// A new database for a suite, cloned in about 50 ms from the run's migrated template, and what most suites need in it: an
// organization with one project.
import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { closeTemplate, limitShards, queryAs } from './distributed-database.ts';
import { ENCRYPTION_KEY } from './make-config.ts';
import { type SeedProject, seedProject } from './seed.ts';
import { waitFor } from './wait-for.ts';

export interface DatabaseFixture {
  /** The address for a superuser. */
  databaseUrl: string;
  /** For the test's own queries. */
  pool: Pool;
  /** Ends the pool and drops the database, also when something is still connected to it. */
  close(): Promise<void>;
}

export interface ProjectFixture extends DatabaseFixture {
  project: SeedProject;
  /** Seals and opens with `ENCRYPTION_KEY`. */
  secrets: SecretBox;
}

/**
 * Makes a migrated database without rows; with `hasSchema: false` also without a schema. Close it in `afterAll`; the end
 * of the run drops the databases that were not closed.
 */
export async function openDatabaseFixture({ hasSchema = true } = {}): Promise<DatabaseFixture> {
  const prefix = inject('postgresPrefix');
  const name = `${prefix}_${randomBytes(6).toString('hex')}`;
  const template = hasSchema ? `${prefix}_template` : emptyTemplate(prefix);
  await cloneDatabase(template, name);
  if (!hasSchema && hasWorkers()) await limitShards(inject('postgresAdminUrl'), name);
  const url = new URL(inject('postgresAdminUrl'));
  url.pathname = `/${name}`;
  const pool = openTestPool(url.href);
  return {
    databaseUrl: url.href,
    pool,
    async close() {
      await pool.end();
      for (const server of servers())
        await waitFor(() => queryAs(server, `drop database if exists ${name} with (force)`), {
          what: 'the database is dropped',
        });
    },
  };
}

/** Makes a database with an organization of the plan `scale` and its project. */
export async function openProjectFixture(): Promise<ProjectFixture> {
  const database = await openDatabaseFixture();
  return {
    ...database,
    project: await seedProject(database.pool),
    secrets: new SecretBox([ENCRYPTION_KEY]),
  };
}

/** Its time-outs are so long that no busy machine reaches them. */
function openTestPool(databaseUrl: string): Pool {
  const longMs = 200_000;
  return openPool({
    databaseUrl,
    size: 8,
    applicationName: 'test',
    statementTimeoutMs: longMs,
    connectTimeoutMs: longMs,
    idleInTransactionMs: longMs,
  });
}

/** Also a database of a test, to which no test is connected: nobody can use it any more. */
export async function copyDatabase(name: string, copy: string): Promise<void> {
  for (const server of servers()) await closeTemplate(server, name);
  await cloneDatabase(name, copy);
}

/** Postgres waits five seconds for clients that are connected to the template (the migration, autovacuum), then fails. */
async function cloneDatabase(template: string, name: string): Promise<void> {
  for (const server of servers())
    await waitFor(() => queryAs(server, `create database ${name} template ${template}`), {
      what: 'the database is made',
    });
}

const hasWorkers = () => inject('postgresWorkerUrls') !== undefined;

/** On a distributed server it knows the machines. */
function emptyTemplate(prefix: string): string {
  return hasWorkers() ? `${prefix}_empty` : 'template1';
}

/** One server, or all machines of a distributed one. */
export function servers(): string[] {
  return [inject('postgresAdminUrl'), ...(inject('postgresWorkerUrls') ?? [])];
}
