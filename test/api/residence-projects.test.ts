// A project that was made a moment ago has monitors in the database of a jurisdiction at once.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createApiClient } from '../support/api-client.ts';
import { copyAll } from '../support/directory-fixture.ts';
import { openResidenceFixture, type ResidenceFixture } from '../support/residence-fixture.ts';
import { seedCredential, seedProject } from '../support/seed.ts';

let fixture: ResidenceFixture;

beforeAll(async () => {
  fixture = await openResidenceFixture();
});
afterAll(() => fixture?.close());

/** Makes a monitor of eu in a new project of a new organization. */
async function createInNewProject() {
  const { url, pool } = fixture;
  const { projectId } = await seedProject(pool);
  const client = createApiClient({ url, token: await seedCredential(pool, { projectId, preset: 'manage' }) });
  const body = { name: 'backup', intervalSeconds: 300, jurisdiction: 'eu' as const };
  return { projectId, answer: await client.call('createMonitor', { body }) };
}

it('a monitor is made in the database of its jurisdiction before the project was copied there', async () => {
  const made = await Promise.all([createInNewProject(), createInNewProject(), createInNewProject()]);
  expect(made.map(({ answer }) => answer.status)).toEqual([201, 201, 201]);
  const { rows } = await fixture.eu.query('select project_id from monitors');
  expect(rows.map((row) => row.project_id).sort()).toEqual(made.map(({ projectId }) => projectId).sort());
  await copyAll(fixture.pool, { jurisdiction: 'eu', pool: fixture.eu });
});

it('a monitor is refused with 503, not 404, while the copies of its database have not begun', async () => {
  await fixture.pool.query('delete from directory_places');
  expect((await createInNewProject()).answer.status).toBe(503);
});
