// A database of a test's own, cloned from the run's migrated template in some 50 ms.
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { waitFor } from './wait-for.ts';

export interface TestDatabase {
  /** Connection address, of a superuser. */
  url: string;
  /** Drops the database, with whatever is still connected to it. */
  drop(): Promise<void>;
}

/** Makes an empty, migrated database. Drop it in `afterAll`; the end of the run drops what was forgotten. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const prefix = inject('postgresPrefix');
  const name = `${prefix}_${randomBytes(6).toString('hex')}`;
  const create = async () => {
    await asAdmin(`create database ${name} template ${prefix}_template`);
    return true;
  };
  // Postgres gives who is still connected to the template, such as the migration or autovacuum, five seconds to leave.
  await waitFor(create, { what: 'the database is made' });
  const url = new URL(inject('postgresAdminUrl'));
  url.pathname = `/${name}`;
  const drop = async () => {
    await asAdmin(`drop database if exists ${name} with (force)`);
    return true;
  };
  return {
    url: url.href,
    async drop() {
      // Postgres gives those who are still connected five seconds to leave.
      await waitFor(drop, { what: 'the database is dropped' });
    },
  };
}

/** Connections for a test's own looks and arrangements, with limits that no busy machine meets. */
export function openTestPool(databaseUrl: string, size: number): Pool {
  const [applicationName, minuteMs] = ['test', 60_000];
  return openPool({
    databaseUrl,
    size,
    applicationName,
    statementTimeoutMs: minuteMs,
    connectTimeoutMs: minuteMs,
    idleInTransactionMs: minuteMs,
  });
}

async function asAdmin(sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('postgresAdminUrl') });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
