// The role `api` where the database of a jurisdiction is not the installation's own, or would lose beats: nothing is read or
// written there, and all else goes on (docs/contract/tenancy.md).
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiFixture, openApiFixture } from '../support/api-fixture.ts';
import { type DatabaseFixture, openDatabaseFixture } from '../support/database-fixture.ts';
import { copyAll } from '../support/directory-fixture.ts';
import { seedCredential, seedProject } from '../support/seed.ts';
import { waitFor } from '../support/wait-for.ts';

let eu: DatabaseFixture;
let api: ApiFixture;
let ofOthers: string;

beforeAll(async () => {
  eu = await openDatabaseFixture();
  ofOthers = await seedCredential(eu.pool, { ...(await seedProject(eu.pool)), preset: 'manage' });
  await eu.pool.query('insert into directory_copy (installation_id, jurisdiction) values ($1, $2)', [
    randomUUID(),
    'eu',
  ]);
  api = await openApiFixture({ config: { places: [{ jurisdiction: 'eu', databaseUrl: eu.databaseUrl }] } });
});
afterAll(async () => {
  await api?.close();
  await eu?.close();
});

const monitor = (jurisdiction: 'eu' | 'us') => ({
  name: `m-${randomUUID()}`,
  intervalSeconds: 3600,
  jurisdiction,
});
const readiness = async () => (await (await fetch(`${api.healthUrl}/readyz`)).json()) as { checks: object };

it("another installation's database is neither read nor written", async () => {
  const { problem } = await api.manage.call('listMonitors');
  expect(problem).toMatchObject({ code: 'service.temporarily_unavailable', jurisdiction: 'eu' });
  expect(problem?.detail).toContain('is not in use');
  const refused = await api.manage.call('createMonitor', { body: monitor('eu') });
  expect([refused.status, refused.problem?.jurisdiction]).toEqual([503, 'eu']);
  const stranger = await fetch(`${api.url}/v1/monitors?jurisdiction=us`, {
    headers: { authorization: `Bearer ${ofOthers}` },
  });
  expect(stranger.status).toBe(401);
  // It may be an address of that database.
  expect((await fetch(`${api.url}/ping/${randomUUID()}`)).status).toBe(503);
  const { body } = await api.manage.expectSuccess('createMonitor', { body: monitor('us') });
  expect((await fetch(`${api.url}${new URL(body.publishUrl ?? '').pathname}`)).status).toBe(200);
  for (const table of ['service_clock', 'ingest_lanes', 'monitors', 'idempotency_records'])
    expect((await eu.pool.query(`select from ${table}`)).rowCount, table).toBe(0);
  expect((await readiness()).checks).toMatchObject({ database: 'ok', database_eu: 'failing' });
});

it('one whose commits may be lost is not used, keeps no api from starting, and is used once it is durable', async () => {
  const name = new URL(eu.databaseUrl).pathname.slice(1);
  await eu.pool.query('truncate directory_copy, organizations, projects, credentials, credential_addresses');
  await copyAll(api.pool, { jurisdiction: 'eu', pool: eu.pool });
  await api.pool.query(`alter database ${name} set synchronous_commit = off`);
  const replica = await api.startReplica();
  const create = (jurisdiction: 'eu' | 'us') =>
    fetch(`${replica.url}/v1/monitors`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${api.tokens.manage}`,
        'content-type': 'application/json',
        'idempotency-key': randomUUID(),
      },
      body: JSON.stringify(monitor(jurisdiction)),
    });
  expect((await create('us')).status).toBe(201);
  expect((await create('eu')).status).toBe(503);
  await api.pool.query(`alter database ${name} reset synchronous_commit`);
  await waitFor(async () => (await create('eu')).status === 201, { what: 'the place is used' });
});
