// An installation that the version before this one has filled, and both versions as processes on its database.
import { extractFormerVersion } from '../e2e/former-version.ts';
import { type ApiClient, createApiClient } from '../support/api-client.ts';
import { forbidOutages } from '../support/api-fixture.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { type RoleProcess, startRole } from '../support/role-process.ts';
import { type Outcome, runRole } from '../support/run-program.ts';
import { startTokenIssuer } from '../support/token-issuer.ts';

export const PROJECT = 'shop';
export type Version = 'former' | 'present';

/** The processes of a version. */
export interface Running {
  api: RoleProcess;
  owner: ApiClient;
  /** The owner without a project. */
  organization: ApiClient;
  stop(): Promise<void>;
}

export interface FormerFixture {
  database: DatabaseFixture;
  receiver: Receiver;
  migrate(version: Version): Promise<Outcome>;
  start(version: Version): Promise<Running>;
  close(): Promise<void>;
}

/** The database is empty. Stopping all processes for some seconds is no outage there. */
export async function openFormerFixture(): Promise<FormerFixture> {
  const [former, database, issuer, receiver] = await Promise.all([
    extractFormerVersion(),
    openDatabaseFixture({ hasSchema: false }),
    startTokenIssuer(),
    startReceiver(),
  ]);
  const folders = { former: former.folder, present: undefined };
  const env = {
    DATABASE_URL: database.databaseUrl,
    BEATKEEPER_ENCRYPTION_KEYS: `${ENCRYPTION_KEY.id}:${ENCRYPTION_KEY.key.toString('base64')}`,
    BEATKEEPER_ORGANIZATION: 'acme',
    BEATKEEPER_PUBLIC_URL: 'http://beats.test',
    BEATKEEPER_ISSUERS: JSON.stringify([issuer.trusted({ organization: 'acme', roles: { ada: 'owner' } })]),
    BEATKEEPER_ALLOWED_PRIVATE_DESTINATIONS: '127.0.0.0/8',
    BEATKEEPER_MINIMUM_INTERVAL_SECONDS: '1',
  };
  const running = new Set<Running>();
  return {
    database,
    receiver,
    async migrate(version) {
      const outcome = await runRole(['migrate'], env, folders[version]);
      const { rowCount } = await database.pool.query(`select from pg_proc where proname = 'leave_out'`);
      if (rowCount === 0) await forbidOutages(database.pool);
      return outcome;
    },
    async start(version) {
      const start = (role: 'api' | 'sweeper') => startRole(role, env, undefined, folders[version]);
      const [api, sweeper] = await Promise.all([start('api'), start('sweeper')]);
      const token = await issuer.sign({ subject: 'ada' });
      const one: Running = {
        api,
        owner: createApiClient({ url: api.url, token, project: PROJECT }),
        organization: createApiClient({ url: api.url, token }),
        async stop() {
          running.delete(one);
          await Promise.all([api.close(), sweeper.close()]);
        },
      };
      running.add(one);
      return one;
    },
    async close() {
      await Promise.all([...running].map((one) => one.stop()));
      await Promise.all([receiver.close(), issuer.close(), database.close(), former.remove()]);
    },
  };
}
