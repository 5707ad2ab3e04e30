// The command `migrate`: waits for the database, brings its schema up to this build, and makes the
// installation's organization where there is none. Safe to run many times at once.
import { setTimeout as delay } from 'node:timers/promises';
import { newUuid } from '../domain/id.ts';
import type { PlanId } from '../domain/problem.ts';
import { DatabaseIsNewerError, migrate } from '../store/migrate.ts';
import { insertOrganization, updateOrganizationPlan } from '../store/organizations.ts';
import { openPool } from '../store/pool.ts';
import type { Log } from '../telemetry/log.ts';

export interface InstallationOptions {
  databaseUrl: string;
  organization: string;
  plan: PlanId;
  waitSeconds: number;
}

/** Throws DatabaseIsNewerError at once, and what the database said last when it did not answer in time. */
export async function migrateInstallation(options: InstallationOptions, log: Log): Promise<void> {
  const { databaseUrl } = options;
  const deadline = performance.now() + options.waitSeconds * 1_000;
  const version = await retryUntil(deadline, log, () =>
    migrate({ databaseUrl, onApplied: ({ name }) => log.info({ migration: name }, 'Applied a migration.') }),
  );
  log.info({ version }, 'The schema is up to date.');
  await retryUntil(deadline, log, () => ensureOrganization(options));
}

async function ensureOrganization({ databaseUrl, organization, plan }: InstallationOptions): Promise<void> {
  const pool = openPool({ databaseUrl, size: 1, applicationName: 'beatkeeper-migrate' });
  try {
    const wanted = { organizationId: newUuid(), name: organization, plan };
    const { organizationId } = await insertOrganization(pool, wanted);
    await updateOrganizationPlan(pool, organizationId, plan);
  } finally {
    await pool.end();
  }
}

// Postgres is starting, not there, or not yet known by name.
const NOT_YET = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  '57P03',
  '3D000',
]);

async function retryUntil<T>(deadline: number, log: Log, work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const { code = '', message } = error as { code?: string; message: string };
      const isPassing = NOT_YET.has(code) || message.includes('timeout');
      if (error instanceof DatabaseIsNewerError || !isPassing || performance.now() > deadline) throw error;
      log.warn({ code }, 'The database does not answer yet.');
      await delay(1_000);
    }
  }
}
