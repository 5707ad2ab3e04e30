// What a statement means that names what the database of a jurisdiction lacks: the schema of another build is a database that
// cannot be used, and in the right schema the statement is at fault (docs/adr/0013).
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';

let api: ResidenceFixture;
let version: number;
beforeAll(async () => {
  api = await openResidenceFixture();
  const { rows } = await api.eu.query('select max(version) as version from schema_migrations');
  version = rows[0].version;
  await api.eu.query('alter table monitors rename column labels to labels_of_another_build');
});
afterAll(() => api?.close());

const setVersion = (stated: number) =>
  api.eu.query(
    'update schema_migrations set version = $1 where version = (select max(version) from schema_migrations)',
    [stated],
  );
afterEach(() => setVersion(version));

const calls = {
  read: () => api.manage.call('listMonitors', { query: { jurisdiction: 'eu' } }),
  write: () =>
    api.manage.call('createMonitor', { body: { name: 'Job', intervalSeconds: 300, jurisdiction: 'eu' } }),
};

it.each(Object.entries(calls))(
  'a %s by a faulty statement is a fault of the service',
  async (_what, call) => {
    expect((await call()).problem).toMatchObject({ status: 500, code: 'service.internal_error' });
  },
);

it.each(Object.entries(calls))(
  'a %s in the schema of an older or a newer build is a 503 with the jurisdiction',
  async (_what, call) => {
    for (const other of [version + 1, version - 1]) {
      await api.eu.query('delete from schema_migrations where version = $1', [other]);
      await setVersion(other);
      expect((await call()).problem).toMatchObject({ status: 503, jurisdiction: 'eu', retryable: true });
      await setVersion(version);
    }
  },
);
