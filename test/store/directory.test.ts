// Copies of the directory in the database of a jurisdiction, case by case; directory-property.test.ts has the rest.
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bringRows, copyDirectory, isCopied } from '../../src/store/directory/copy-directory.ts';
import { PlaceRefused } from '../../src/store/directory/whose-place.ts';
import { SecretBox } from '../../src/store/postgres/secret-box.ts';
import {
  copyAll,
  type DirectoryFixture,
  openDirectoryFixture,
  readDirectory,
} from '../support/directory-fixture.ts';
import { ENCRYPTION_KEY } from '../support/make-config.ts';
import { type SeedProject, seedCredential, seedEndpoint, seedMonitor, seedProject } from '../support/seed.ts';

const secrets = new SecretBox([ENCRYPTION_KEY]);
let fixture: DirectoryFixture;

beforeEach(async () => {
  fixture = await openDirectoryFixture();
});
afterEach(() => fixture?.close());

const countOf = async (table: string, where = 'true') => {
  const { rows } = await fixture.source.query(`select from ${table} where ${where}`);
  return rows.length;
};

async function seedDirectory() {
  const { source } = fixture;
  const project = await seedProject(source);
  const token = await seedCredential(source, { projectId: project.projectId, preset: 'manage' });
  const endpoint = await seedEndpoint({ pool: source, project, secrets }, 'https://example.com/hook', true);
  return { project, token, endpoint };
}

describe('a full copy', () => {
  it('brings what was there before the place', async () => {
    const { source, place } = fixture;
    await seedDirectory();
    await copyAll(source, place);
    const copied = await readDirectory(place.pool);
    expect(copied).toEqual(await readDirectory(source));
    expect(copied).toMatchObject({ organizations: { length: 1 }, projects: { length: 1 } });
    expect(copied).toMatchObject({ credentials: { length: 1 }, signing_secrets: { length: 1 } });
  });

  it('goes page by page, and on where a process died', async () => {
    const { source, place } = fixture;
    for (let count = 0; count < 7; count += 1) await seedDirectory();
    // Each step is a page of three keys; none is the work of a process that knows the one before.
    await copyAll(source, place, 3);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
    expect((await readDirectory(place.pool)).projects).toHaveLength(7);
  });

  it('waits for a transaction that began before the place was known', async () => {
    const { source, place } = fixture;
    const project = await seedProject(source);
    const late = await source.connect();
    await late.query('begin');
    await late.query(`update projects set name = 'late' where project_id = $1`, [project.projectId]);
    for (let step = 0; step < 5; step += 1) await copyDirectory(source, place);
    expect(await copyDirectory(source, place)).toBe('waits');
    expect(await isCopied(source, place)).toBe(false);
    await late.query('commit');
    late.release();
    await copyAll(source, place);
    expect((await readDirectory(place.pool)).projects?.[0]).toContain('"late"');
  });
});

describe('a change of the directory', () => {
  it('is copied where what it refers to was there before the place', async () => {
    const { source, place } = fixture;
    await seedProject(source);
    await copyDirectory(source, place);
    await source.query(`update projects set name = 'changed before the full copy'`);
    await copyAll(source, place);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });

  it('is copied: rows that come, change and go, in every table', async () => {
    const { source, place } = fixture;
    await copyAll(source, place);
    const { project } = await seedDirectory();
    await source.query(
      `insert into relay_topics (topic_id, organization_id, notifier_id, actor_id, topic_box, created_at, updated_at)
       values ($1, $2, 'ntfy', 'person', '\\x0102', now(), now())`,
      [randomUUID(), project.organizationId],
    );
    await copyAll(source, place);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
    await source.query(`update organizations set service_state = 'suspended'`);
    await source.query(`update credentials set revoked_at = now()`);
    await source.query(`update relay_topics set topic_box = '\\x0304'`);
    await source.query('delete from signing_secrets');
    await source.query('delete from credential_addresses');
    await copyAll(source, place);
    const copied = await readDirectory(place.pool);
    expect(copied).toEqual(await readDirectory(source));
    expect(copied).toMatchObject({ signing_secrets: [], credential_addresses: [] });
    expect(copied.organizations?.[0]).toContain('suspended');
    // Since when, as the source has noted it.
    const suspended = 'select suspended_at as at from organizations';
    const { rows } = await source.query<{ at: Date | null }>(suspended);
    expect(rows).toEqual([{ at: expect.any(Date) }]);
    expect((await place.pool.query(suspended)).rows).toEqual(rows);
    await source.query(`update organizations set service_state = 'active'`);
    await copyAll(source, place);
    const returned = 'select returned_at is not null as "hasReturned" from organizations';
    expect((await place.pool.query(returned)).rows).toEqual([{ hasReturned: true }]);
  });

  it('queues nothing where there is no place', async () => {
    await seedDirectory();
    await fixture.source.query(`update projects set name = 'other'`);
    expect(await countOf('directory_changes')).toBe(0);
  });

  it('of counts, of the last use of a credential and of the last delivery queues nothing, and a copy keeps its own', async () => {
    const { source, place } = fixture;
    await seedDirectory();
    await copyAll(source, place);
    await place.pool.query(`update callback_endpoints set last_delivery = '{"state":"delivered"}'`);
    await source.query('update organizations set active_monitors = 7, callback_endpoints = 1');
    await source.query('update credentials set last_used_at = now()');
    await source.query(`update callback_endpoints set last_delivery = '{"state":"failing"}'`);
    expect(await countOf('directory_changes')).toBe(0);
    await source.query(`update callback_endpoints set lifecycle = 'disabled'`);
    await copyAll(source, place);
    const { rows } = await place.pool.query('select lifecycle, last_delivery from callback_endpoints');
    expect(rows).toEqual([{ lifecycle: 'disabled', last_delivery: { state: 'delivered' } }]);
  });

  it('of an inline endpoint stays where its monitor is, and so do its secrets', async () => {
    const { source, place } = fixture;
    const { project, endpoint } = await seedDirectory();
    const monitor = await seedMonitor(source, project);
    const ofMonitor = `update callback_endpoints set monitor_key = $1, generation = generation + 1 where endpoint_id = $2`;
    await source.query(ofMonitor, [monitor.monitorKey, endpoint.endpointId]);
    await copyAll(source, place);
    await source.query(`update callback_endpoints set lifecycle = 'disabled'`);
    await source.query('update signing_secrets set issued_at = now()');
    expect(await countOf('directory_changes')).toBe(0);
    const copied = await readDirectory(place.pool);
    expect(copied).toMatchObject({ callback_endpoints: [], signing_secrets: [], projects: { length: 1 } });
  });

  it('that exchanges unique names is copied, also where a batch has only one of the two rows', async () => {
    const { source, place } = fixture;
    const { project } = await seedDirectory();
    const second = await seedEndpoint({ pool: source, project, secrets }, 'https://example.com/2');
    await copyAll(source, place);
    const ofSecond = [second.endpointId];
    await source.query(`update callback_endpoints set alias = 'first' where endpoint_id = $1`, ofSecond);
    await copyAll(source, place);
    // The line of the endpoint that gives the name up comes after the one that takes it.
    await source.query(`update callback_endpoints set alias = 'moved' where endpoint_id = $1`, ofSecond);
    await source.query(`update callback_endpoints set alias = 'first' where endpoint_id <> $1`, ofSecond);
    await source.query(`update callback_endpoints set generation = 9 where endpoint_id = $1`, ofSecond);
    await copyAll(source, place, 1);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
    await swapAliases();
    await copyAll(source, place, 1);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });
});

/** In one transaction: `first` and `moved` change their endpoints. */
async function swapAliases(): Promise<void> {
  const tx = await fixture.source.connect();
  await tx.query('begin');
  await tx.query(`update callback_endpoints set alias = 'held' where alias = 'first'`);
  await tx.query(`update callback_endpoints set alias = 'first' where alias = 'moved'`);
  await tx.query(`update callback_endpoints set alias = 'moved' where alias = 'held'`);
  await tx.query('commit');
  tx.release();
}

describe('rows that a call brings', () => {
  it('are in the place at once, before older lines', async () => {
    const { source, place } = fixture;
    await copyAll(source, place);
    for (let count = 0; count < 3; count += 1) await seedDirectory();
    const { project, endpoint } = await seedDirectory();
    const { organizationId, projectId } = project;
    await bringRows(source, place, [
      { table: 'organizations', keys: [{ organization_id: organizationId }] },
      { table: 'projects', keys: [{ project_id: projectId }] },
      { table: 'callback_endpoints', keys: [{ project_id: projectId, endpoint_id: endpoint.endpointId }] },
    ]);
    const { rows } = await place.pool.query('select project_id from projects');
    expect(rows).toEqual([{ project_id: projectId }]);
    await copyAll(source, place);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });
});

describe('many calls that bring rows', () => {
  it('all have them, also where a later batch was in the place first', async () => {
    const { source, place } = fixture;
    await copyAll(source, place);
    const projects = await Promise.all(Array.from({ length: 8 }, () => seedProject(source)));
    const bring = ({ organizationId, projectId }: SeedProject) =>
      bringRows(source, place, [
        { table: 'organizations', keys: [{ organization_id: organizationId }] },
        { table: 'projects', keys: [{ project_id: projectId }] },
      ]);
    await Promise.all(projects.map(bring));
    expect((await readDirectory(place.pool)).projects).toHaveLength(8);
  });
});

describe('a place', () => {
  const copy = () => copyAll(fixture.source, fixture.place);

  it('with an older schema gets no copies until it is migrated', async () => {
    const { source, place } = fixture;
    await copy();
    await source.query(`insert into schema_migrations (version, name) values (999, 'newer')`);
    await seedDirectory();
    expect(await copyDirectory(source, place)).toBe('waits');
    expect((await readDirectory(place.pool)).projects).toEqual([]);
    await place.pool.query(`insert into schema_migrations (version, name) values (999, 'newer')`);
    await copy();
    expect((await readDirectory(place.pool)).projects).toHaveLength(1);
  });

  it('is refused where it belongs to another installation, or has another jurisdiction', async () => {
    const { source, place } = fixture;
    await copy();
    await expect(copyAll(source, { ...place, jurisdiction: 'us' })).rejects.toThrow('jurisdiction eu');
    await source.query('update installation set installation_id = gen_random_uuid()');
    await expect(copy()).rejects.toThrow('another installation');
  });

  it('is refused where it has organizations of its own, or is the default database', async () => {
    const { source, place } = fixture;
    await expect(copyAll(source, { ...place, pool: source })).rejects.toThrow(PlaceRefused);
    await seedProject(place.pool);
    await expect(copy()).rejects.toThrow('organizations of its own');
  });
});
