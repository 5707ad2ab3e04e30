// A database of a jurisdiction that answers, and cannot be used: no harm to the others (docs/adr/0013).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Jurisdiction } from '../../src/domain/monitor.ts';
import { createApiClient } from '../support/api-client.ts';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';

let api: ApiFixture;
let empty: DatabaseFixture;
beforeAll(async () => {
  empty = await openDatabaseFixture({ hasSchema: false });
  api = await openApiFixture();
});
afterAll(async () => {
  await api?.close();
  await empty?.close();
});

const UNUSABLE: Record<string, (url: URL) => void> = {
  'has no schema, because migrate could not reach it': () => undefined,
  'is not there': (url) => {
    url.pathname = '/none';
  },
  'does not know the role': (url) => {
    url.username = 'nobody_of_that_name';
  },
};

it.each(Object.entries(UNUSABLE))(
  'where the database of a jurisdiction %s, its calls are a 503 and the others go on',
  async (_how, spoil) => {
    const address = new URL(empty.databaseUrl);
    spoil(address);
    const { url } = await api.startReplica({ places: [{ jurisdiction: 'eu', databaseUrl: address.href }] });
    const manage = createApiClient({ url, token: api.tokens.manage });
    const bodyOf = (jurisdiction: Jurisdiction) => ({
      ...{ monitorId: `m-${randomUUID()}`, name: randomUUID(), intervalSeconds: 3600, jurisdiction },
    });
    const { body: made } = await manage.expectSuccess('createMonitor', { body: bodyOf('us') });
    const params = { monitorId: made.monitorId };
    await manage.expectSuccess('getMonitor', { params });
    await manage.expectSuccess('listMonitors', { query: { jurisdiction: 'us' } });
    await manage.expectSuccess('changeMonitorLifecycle', {
      ...{ params, query: { jurisdiction: 'us' }, ifMatch: '"configuration-1"', body: { action: 'pause' } },
    });
    const operator = createApiClient({ url, token: api.tokens.operator });
    expect((await operator.expectSuccess('getStatusFeed')).body.away).toEqual(['eu']);

    const refused = [
      await manage.call('createMonitor', { body: bodyOf('eu') }),
      await manage.call('listMonitors'),
      await manage.call('getMonitor', { params: { monitorId: 'unknown' } }),
    ];
    for (const { problem } of refused)
      expect(problem).toMatchObject({ status: 503, jurisdiction: 'eu', retryable: true });
  },
);
