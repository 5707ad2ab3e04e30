// The command `migrate`: waits for the database, migrates its schema to this build, and creates the installation's
// organization if it does not exist. Then it migrates the databases of jurisdictions. Several processes may run it at once.
import { setTimeout as delay } from 'node:timers/promises';
import { type BillingSource, namesPaidPlan } from '../domain/billing.ts';
import { newUuid } from '../domain/id.ts';
import type { Jurisdiction } from '../domain/monitor.ts';
import type { PlanId } from '../domain/problem.ts';
import { findLeftMonitors } from '../store/directory/left-monitors.ts';
import { requireNotForeign } from '../store/directory/whose-place.ts';
import type { PlaceOptions } from '../store/postgres/databases.ts';
import { DatabaseIsNewerError, type MigrateOptions, migrate } from '../store/postgres/migrate.ts';
import { openPool, type Pool } from '../store/postgres/pool.ts';
import { inTransaction, readNow } from '../store/postgres/transaction.ts';
import { type ProbePace, whileAnswering } from '../store/postgres/while-answering.ts';
import { listSubscriptions, lockBilling } from '../store/tenancy/billing.ts';
import { makeOtherPlansDue } from '../store/tenancy/organization-standing.ts';
import { insertOrganization, updateOrganizationPlan } from '../store/tenancy/organizations.ts';
import type { Log } from '../telemetry/log.ts';

export interface InstallationOptions {
  databaseUrl: string;
  applicationRole?: string;
  organization: string;
  plan: PlanId;
  billingSource: BillingSource;
  waitSeconds: number;
  /** The jurisdictions with a database of their own; default: none. */
  places?: readonly PlaceOptions[];
  /** Of those jurisdictions: the role of `api` and `sweeper`, if that of the address owns the schema. */
  placeRoles?: Partial<Record<Jurisdiction, string>>;
  /** How the databases of those jurisdictions are probed during their migrations; default: every 10 s. */
  probePace?: ProbePace;
}

/** For the database of a jurisdiction. Pods wait for `migrate`: one that is away must not keep those of the others. */
const PLACE_WAIT_MS = 10_000;
/** Another runner may be at work there. */
const LEAST_LOCK_WAIT_MS = 1_000;

/**
 * Accepts a schema that is one version newer: a pod of the old version that restarts during an upgrade, or after a
 * rollback, works with it (migrations expand before they contract). Throws DatabaseIsNewerError at once for a still
 * newer schema, and the last error of a database that did not answer in time. The database of a jurisdiction that cannot be
 * migrated is named in the log, and holds up no other one.
 */
export async function migrateInstallation(options: InstallationOptions, log: Log): Promise<void> {
  const { waitSeconds, places = [] } = options;
  const deadline = performance.now() + waitSeconds * 1_000;
  try {
    const version = await retryUntil(deadline, log, () => migrateOrAccept(options, log));
    log.info({ version }, 'The schema fits this build.');
    await retryUntil(deadline, log, () => ensureOrganization(options));
    await warnOfLeftMonitors(options, log);
  } finally {
    await Promise.all(places.map((place) => migratePlace(place, options, log)));
  }
}

const READ_ALL_MS = 60_000;

/** No setting moves a monitor. Throws nothing: it is no reason to hold up the pods. */
async function warnOfLeftMonitors(
  { databaseUrl, places = [] }: InstallationOptions,
  log: Log,
): Promise<void> {
  if (places.length === 0) return;
  const names = { applicationName: 'beatkeeper-migrate', statementTimeoutMs: READ_ALL_MS };
  const pool = openPool({ databaseUrl, size: 1, ...names });
  try {
    const jurisdictions = places.map(({ jurisdiction }) => jurisdiction);
    for (const jurisdiction of await findLeftMonitors(pool, jurisdictions))
      log.warn(
        { jurisdiction },
        'The default database has monitors of a jurisdiction with a database of its own: they stay there until they are deleted.',
      );
  } catch (err) {
    log.warn({ err }, 'Whether monitors are in the database of their jurisdiction could not be read.');
  } finally {
    await pool.end();
  }
}

/**
 * Throws nothing. Readiness says of a place that its schema is missing, and a later `migrate` makes it. A migration may be long,
 * but a database that stops answering in the middle of it is given up.
 */
async function migratePlace(
  { jurisdiction, databaseUrl }: PlaceOptions,
  options: InstallationOptions,
  log: Log,
): Promise<void> {
  const limitMs = Math.min(PLACE_WAIT_MS, options.waitSeconds * 1_000);
  const deadline = performance.now() + limitMs;
  const ofPlace = log.child({ database: jurisdiction });
  const applicationRole = options.placeRoles?.[jurisdiction];
  const target = { databaseUrl, applicationRole, lockTimeoutMs: Math.max(limitMs, LEAST_LOCK_WAIT_MS) };
  try {
    const work = (signal: AbortSignal) =>
      retryUntil(
        deadline,
        ofPlace,
        async () => {
          await requireOwnPlace({ jurisdiction, databaseUrl }, options);
          return await migrateOrAccept({ ...target, signal }, ofPlace);
        },
        signal,
      );
    const version = await whileAnswering(databaseUrl, work, options.probePace);
    ofPlace.info({ version }, 'The schema fits this build.');
  } catch (err) {
    ofPlace.error({ err }, 'The database of this jurisdiction is not migrated: run migrate again.');
  }
}

/** Throws `PlaceRefused`: nothing is changed in a database of others, not even its schema. */
async function requireOwnPlace(
  { jurisdiction, databaseUrl }: PlaceOptions,
  options: InstallationOptions,
): Promise<void> {
  const open = (url: string) =>
    openPool({ databaseUrl: url, size: 1, applicationName: 'beatkeeper-migrate' });
  const [source, pool] = [open(options.databaseUrl), open(databaseUrl)];
  try {
    const read = source.query<{ id: string }>('select installation_id as id from installation');
    const installation = await read.catch(() => undefined);
    await requireNotForeign({ jurisdiction, pool }, installation?.rows[0]?.id);
  } finally {
    await Promise.all([source.end(), pool.end()]);
  }
}

async function migrateOrAccept(
  { databaseUrl, applicationRole, lockTimeoutMs, signal }: Omit<MigrateOptions, 'onApplied'>,
  log: Log,
): Promise<number> {
  try {
    const onApplied = ({ name }: { name: string }) => log.info({ migration: name }, 'Applied a migration.');
    return await migrate({ databaseUrl, applicationRole, lockTimeoutMs, onApplied, signal });
  } catch (error) {
    if (error instanceof DatabaseIsNewerError && error.found === error.known + 1) return error.found;
    throw error;
  }
}

async function ensureOrganization(options: InstallationOptions): Promise<void> {
  const { databaseUrl, organization, plan, billingSource } = options;
  const pool = openPool({ databaseUrl, size: 1, applicationName: 'beatkeeper-migrate' });
  try {
    const wanted = { organizationId: newUuid(), name: organization, plan };
    const { organizationId } = await insertOrganization(pool, wanted);
    if (billingSource === 'static') await updateOrganizationPlan(pool, { organizationId, plan });
    else await leavePaidPlans(pool, { organizationId, plan });
  } finally {
    await pool.end();
  }
}

/** A plan that somebody pays for is the provider's to say, also after a time in which the values said it. */
async function leavePaidPlans(
  pool: Pool,
  { organizationId, plan }: { organizationId: string; plan: PlanId },
): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await lockBilling(tx);
    const isPaid = (await listSubscriptions(tx, organizationId)).some(namesPaidPlan);
    if (!isPaid) await updateOrganizationPlan(tx, { organizationId, plan });
    await makeOtherPlansDue(tx, await readNow(tx));
  });
}

// Postgres is starting, is not there, or has no DNS name yet.
const NOT_YET = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  '57P03',
  '3D000',
  // Another session holds a lock.
  '55P03',
]);

async function retryUntil<T>(
  deadline: number,
  log: Log,
  work: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const { code = '', message } = error as { code?: string; message: string };
      const isPassing = NOT_YET.has(code) || message.includes('timeout');
      if (error instanceof DatabaseIsNewerError || !isPassing || performance.now() > deadline) throw error;
      signal?.throwIfAborted();
      log.warn({ code, reason: message }, 'The database is not ready yet; trying again.');
      await delay(1_000);
    }
  }
}
