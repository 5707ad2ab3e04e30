// The role `api` with two databases: the default one, and one for the jurisdiction `eu`. Each is behind a proxy, so that a
// test can take it away.
import type { Pool } from '../../src/store/postgres/pool.ts';
import { type ApiFixture, type ApiFixtureOptions, forbidOutages, openApiFixture } from './api-fixture.ts';
import { openDatabaseFixture } from './database-fixture.ts';
import { copyAll } from './directory-fixture.ts';
import { TcpProxy } from './tcp-proxy.ts';
import { waitFor } from './wait-for.ts';

export interface ResidenceFixture extends ApiFixture {
  /** The database of `eu`, for the test's own queries. */
  eu: Pool;
  proxies: { default: TcpProxy; eu: TcpProxy };
  /** Copies what has changed in the directory. */
  copyDirectory(): Promise<void>;
  /** Forwards to all databases again, and waits until all calls find them. */
  restore(): Promise<void>;
}

/** Call `close` in `afterAll`. */
export async function openResidenceFixture(options: ApiFixtureOptions = {}): Promise<ResidenceFixture> {
  const place = await openDatabaseFixture();
  await forbidOutages(place.pool);
  const proxies: Partial<ResidenceFixture['proxies']> = {};
  const eu = await TcpProxy.start(place.databaseUrl);
  const fixture = await openApiFixture({
    ...options,
    databaseUrl: async (url) => {
      proxies.default = await TcpProxy.start(url);
      return proxies.default.url;
    },
    config: { ...options.config, places: [{ jurisdiction: 'eu', databaseUrl: eu.url }] },
  });
  const main = proxies.default;
  if (!main) throw new Error('The api has no default database.');
  const copyDirectory = () => copyAll(fixture.pool, { jurisdiction: 'eu', pool: place.pool });
  await copyDirectory();
  const listEu = () => fixture.manage.call('listMonitors', { query: { jurisdiction: 'eu' } });
  await waitFor(async () => (await listEu()).status === 200, { what: 'the api knows whose place eu is' });
  return {
    ...fixture,
    eu: place.pool,
    proxies: { default: main, eu },
    copyDirectory,
    async restore() {
      for (const proxy of [main, eu]) {
        proxy.forward();
        await proxy.accept();
        proxy.reset();
      }
      // At the same time, on all connections that calls of a project have.
      const lists = () => Promise.all(Array.from({ length: 12 }, () => fixture.manage.call('listMonitors')));
      await waitFor(async () => (await lists()).every(({ status }) => status === 200), {
        what: 'all databases are found again',
      });
    },
    async close() {
      await fixture.close();
      await Promise.all([main.close(), eu.close()]);
      await place.close();
    },
  };
}
