// What the database of a jurisdiction finds out of endpoints, and the default database is told.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { disableEndpoint } from '../../src/service/callbacks/callback-changes.ts';
import { sealUrl } from '../../src/service/callbacks/endpoint-seal.ts';
import { listEndpointChanges } from '../../src/store/callbacks/endpoint-changes.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import { inTransaction, readNow } from '../../src/store/postgres/transaction.ts';
import { reportEndpoints } from '../../src/sweeper/upkeep/report-endpoints.ts';
import {
  copyAll,
  type DirectoryFixture,
  openDirectoryFixture,
  readDirectory,
} from '../support/directory-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { mortal } from '../support/mortal-database.ts';
import { type SeedProject, seedEndpoint, seedProject } from '../support/seed.ts';

const secrets = new SecretBox([ENCRYPTION_KEY]);
let fixture: DirectoryFixture;
let ref: { projectId: string; endpointId: string };
let project: SeedProject;

beforeEach(async () => {
  fixture = await openDirectoryFixture();
  project = await seedProject(fixture.source);
  const { endpointId } = await seedEndpoint({ pool: fixture.source, project, secrets }, 'https://a.example');
  ref = { projectId: project.projectId, endpointId };
  await copyAll(fixture.source, fixture.place);
});
afterEach(() => fixture?.close());

const report = () => reportEndpoints(fixture.source, fixture.place, secrets);
const setLast = (db: Pool, at: string, state = 'delivered') =>
  db.query('update callback_endpoints set last_delivery = $1', [{ state, at }]);
const rowOf = async (db: Pool) => {
  const { rows } = await db.query(
    'select lifecycle, disabled_reason, generation, last_delivery from callback_endpoints',
  );
  return rows[0];
};
/** As a dispatcher of the place does when the receiver answers 410. */
const disableInPlace = () =>
  inTransaction(fixture.place.pool, async (tx) =>
    disableEndpoint(tx, { ...ref, reason: 'gone' }, await readNow(tx)),
  );

describe('the last delivery of an endpoint', () => {
  it('is told by the place, and an older one never replaces a newer one', async () => {
    const { source, place } = fixture;
    await setLast(place.pool, '2026-01-02T00:00:00.000Z');
    await report();
    expect((await rowOf(source)).last_delivery).toMatchObject({ at: '2026-01-02T00:00:00.000Z' });
    await setLast(source, '2026-01-05T00:00:00.000Z', 'failing');
    await setLast(place.pool, '2026-01-04T00:00:00.000Z');
    await report();
    expect((await rowOf(source)).last_delivery).toEqual({ at: '2026-01-05T00:00:00.000Z', state: 'failing' });
    // Nothing is left to tell.
    await source.query('update callback_endpoints set last_delivery = null');
    await report();
    expect((await rowOf(source)).last_delivery).toBe(null);
  });
});

describe('an endpoint that answered 410 to the place', () => {
  it('is disabled in the default database, once, with one change record, and so in all places', async () => {
    const { source, place } = fixture;
    await disableInPlace();
    await Promise.all([report(), report(), report()]);
    await report();
    expect(await rowOf(source)).toMatchObject({ lifecycle: 'disabled', disabled_reason: 'gone' });
    const changes = await listEndpointChanges(source, ref, { limit: 10 });
    expect(changes).toMatchObject([{ change: { action: 'disable' }, details: { reason: 'gone' } }]);
    await copyAll(source, place);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });

  it('stays active where its address was changed meanwhile, also in the place', async () => {
    const { source, place } = fixture;
    await disableInPlace();
    const urlBox = sealUrl(secrets, ref, 'https://b.example');
    await source.query('update callback_endpoints set url_box = $1', [urlBox]);
    await report();
    expect(await rowOf(source)).toMatchObject({ lifecycle: 'active' });
    await copyAll(source, place);
    expect(await rowOf(place.pool)).toMatchObject({ lifecycle: 'active' });
  });

  it('is active again when somebody has enabled it, and a later report does not disable it', async () => {
    const { source, place } = fixture;
    await disableInPlace();
    await report();
    await source.query(
      `update callback_endpoints set lifecycle = 'active', disabled_at = null, disabled_reason = null`,
    );
    await report();
    await copyAll(source, place);
    await report();
    expect(await rowOf(source)).toMatchObject({ lifecycle: 'active' });
    expect(await rowOf(place.pool)).toMatchObject({ lifecycle: 'active' });
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])(
    'is disabled once wherever the process dies: at statement %i',
    async (statements) => {
      const { source, place } = fixture;
      await setLast(place.pool, '2026-01-02T00:00:00.000Z');
      await disableInPlace();
      const fate = { statements, isAnswerLost: statements % 2 === 0 };
      const eu = { ...place, pool: mortal(place.pool, fate) };
      await reportEndpoints(mortal(source, fate), eu, secrets).catch(() => undefined);
      await report();
      expect(await rowOf(source)).toMatchObject({
        lifecycle: 'disabled',
        last_delivery: { state: 'delivered' },
      });
      expect(await listEndpointChanges(source, ref, { limit: 10 })).toHaveLength(1);
    },
  );
});
