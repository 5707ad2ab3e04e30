// Who calls is known while the default database is away: each jurisdiction's database has a copy of organizations, projects
// and credentials (docs/contract/tenancy.md).
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { createApiClient } from '../support/api-client.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { seedCredential } from '../support/seed.ts';

let api: ResidenceFixture;
beforeAll(async () => {
  api = await openResidenceFixture();
});
afterAll(() => api.close());
beforeEach(() => api.restore());

const ask = async (token: string, project?: string) => {
  const client = createApiClient({ url: api.url, token, project });
  const query = { jurisdiction: 'eu' };
  const { status, problem } = await client.call('listMonitors', { query });
  return [status, problem?.code];
};
const AWAY = [503, 'service.temporarily_unavailable'];

it.each(['refuses', 'hangs'])('callers of old are known while the default database %s', async (how) => {
  const stranger = await seedCredential(api.eu, { projectId: api.projectId, preset: 'manage' });
  await api.copyDirectory();
  if (how === 'refuses') await api.proxies.default.refuse();
  else api.proxies.default.blackHole();
  // Neither this process nor the default database has seen that one.
  expect(await ask(stranger)).toEqual([200, undefined]);
  expect(await ask(api.tokens.manage)).toEqual([200, undefined]);
  expect(await ask(api.tokens.viewer, api.projectName)).toEqual([200, undefined]);
  // What takes a slot of the plan is counted in the default database.
  const body = { name: 'while it is away', intervalSeconds: 3600, jurisdiction: 'eu' };
  const { status, problem } = await api.manage.call('createMonitor', { body });
  expect([status, problem?.jurisdiction]).toEqual([503, 'unrestricted']);
});

it('a credential, a secret or a project that no copy has may be newer: it is a 503, and no refusal', async () => {
  const fresh = await seedCredential(api.pool, { projectId: api.projectId, preset: 'read' });
  await api.proxies.default.refuse();
  expect(await ask(fresh)).toEqual(AWAY);
  // The credential of one with the secret of another.
  const endOfId = 'bkc_'.length + fresh.slice('bkc_'.length).indexOf('_');
  const rotated = api.tokens.manage.slice(0, endOfId) + fresh.slice(endOfId);
  expect(await ask(rotated)).toEqual(AWAY);
  expect(await ask(api.tokens.viewer, 'made-since')).toEqual(AWAY);
  await api.restore();
  expect(await ask(fresh)).toEqual([200, undefined]);
  expect(await ask(rotated)).toEqual([401, 'service.authentication_required']);
});

it('an api that starts while the default database is away serves the others', async () => {
  await api.proxies.default.refuse();
  const replica = await api.startReplica();
  const client = createApiClient({ url: replica.url, token: api.tokens.manage });
  expect((await client.call('listMonitors', { query: { jurisdiction: 'eu' } })).status).toBe(200);
  expect((await client.call('listMonitors')).problem?.jurisdiction).toBe('unrestricted');
});
