// Rows that a place refuses for their data, full copies that overtake each other, and the one order of locks in a place.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { copyDirectory, isCopied } from '../../src/store/directory/copy-directory.ts';
import { DIRECTORY_TABLES } from '../../src/store/directory/directory-tables.ts';
import { startFill } from '../../src/store/directory/places.ts';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { inTransaction } from '../../src/store/postgres/transaction.ts';
import {
  copyAll,
  type DirectoryFixture,
  openDirectoryFixture,
  readDirectory,
} from '../support/directory-fixture.ts';
import { mortal } from '../support/mortal-database.ts';
import { seedProject } from '../support/seed.ts';
import { statementsOf } from '../support/statements.ts';
import { waitFor } from '../support/wait-for.ts';

let fixture: DirectoryFixture;

beforeEach(async () => {
  fixture = await openDirectoryFixture();
  await copyAll(fixture.source, fixture.place);
});
afterEach(() => fixture?.close());

describe('a row that the place refuses for its data', () => {
  /** Steps until nothing is left to copy now. Returns what was refused. */
  async function copyRest(): Promise<string[]> {
    const refusals: string[] = [];
    while (refusals.length < 5) {
      const result = await copyDirectory(fixture.source, fixture.place).catch((error: Error) => {
        refusals.push(error.message);
        return 'refused' as const;
      });
      if (result === 'idle') return refusals;
    }
    throw new Error('The rest is not copied.');
  }

  beforeEach(async () => {
    const { source, place } = fixture;
    for (let count = 0; count < 9; count += 1) await seedProject(source);
    await source.query(
      `update projects set name = 'bad' where project_id = (select min(project_id::text)::uuid from projects)`,
    );
    await place.pool.query(`alter table projects add constraint no_bad check (name <> 'bad')`);
  });

  it('holds up no other row, is not tried again at once, and is copied when the place takes it', async () => {
    const { source, place } = fixture;
    const refusals = await copyRest();
    expect(refusals).toEqual([expect.stringContaining('no_bad')]);
    const copied = await readDirectory(place.pool);
    expect(copied).toMatchObject({ organizations: { length: 9 }, projects: { length: 8 } });
    expect(await isCopied(source, place)).toBe(false);
    expect(await copyRest()).toEqual([]);
    await place.pool.query('alter table projects drop constraint no_bad');
    await source.query(`update directory_changes set refused_at = refused_at - interval '2 minutes'`);
    expect(await copyRest()).toEqual([]);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });

  it('is read with no more lines than memory has room for', async () => {
    const sent = await statementsOf(copyRest);
    const reads = sent.filter(
      ({ text }) => text.includes('from directory_changes c') && text.includes('limit $3'),
    );
    expect(reads.length).toBeGreaterThan(1);
    for (const { values } of reads) expect(values[2]).toBeLessThanOrEqual(4_000);
  });

  it('is tried again at once where it has changed', async () => {
    const { source, place } = fixture;
    await copyRest();
    await source.query(`update projects set name = 'good' where name = 'bad'`);
    expect(await copyRest()).toEqual([]);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });
});

describe('a full copy', () => {
  it('that began while a process stood still queues no page of the one before', async () => {
    const { source, place } = fixture;
    for (let count = 0; count < 3; count += 1) await seedProject(source);
    await copyAll(source, place);
    await startFill(source, place);
    let rests = 0;
    // It has read that the page of organizations is next, and is about to queue it.
    const late = mortal(source, {
      atRest: async () => {
        rests += 1;
        if (rests !== 2) return;
        // As in a database that was restored: rows that no line knows of.
        const tx = await source.connect();
        await tx.query(`begin; set local session_replication_role = replica`);
        await tx.query(
          `insert into organizations (organization_id, name, plan, created_at)
           values ('00000000-0000-4000-8000-000000000000', 'restored', 'free', now())`,
        );
        await tx.query('commit');
        tx.release();
        await startFill(source, place);
      },
    });
    await copyDirectory(late, place, 10);
    expect(rests).toBeGreaterThanOrEqual(2);
    await copyAll(source, place);
    expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
  });
});

it('a page of what a place has, read before a full copy began, does not end that', async () => {
  const { source, place } = fixture;
  await seedProject(source);
  await copyAll(source, place);
  const toLastStep = async () => {
    await startFill(source, place);
    const isLast = async () =>
      (await source.query('select from directory_places where fill_step = $1', [DIRECTORY_TABLES.length]))
        .rowCount === 1;
    while (!(await isLast())) await copyDirectory(source, place);
  };
  await toLastStep();
  let rests = 0;
  // It has read the page, and is about to queue it.
  const late = mortal(source, {
    atRest: async () => {
      rests += 1;
      if (rests !== 2) return;
      // As from a batch that the default database lost in a restore.
      await place.pool.query(
        `with lost as (insert into organizations (organization_id, name, plan, created_at)
           values (gen_random_uuid(), 'lost', 'free', now()) returning organization_id)
         insert into directory_rows (table_name, row_key, number)
         select 'organizations', jsonb_build_object('organization_id', organization_id), 1 from lost`,
      );
      await toLastStep();
    },
  });
  await copyDirectory(late, place);
  expect(rests).toBeGreaterThanOrEqual(2);
  await copyAll(source, place);
  expect(await readDirectory(place.pool)).toEqual(await readDirectory(source));
});

describe('in a place', () => {
  it('a report that is noted waits for a full copy that begins, and holds no row meanwhile', async () => {
    const { source, place } = fixture;
    for (let count = 0; count < 3; count += 1) await seedProject(source);
    await copyAll(source, place);
    await place.pool.query('update organizations set active_monitors = 1');
    const holder = await place.pool.connect();
    let places = 0;
    // The last statements of a report note it in the place.
    const atRest = async () => {
      places += 1;
      if (places === 3) await holder.query('begin; select from directory_copy for update');
    };
    const report = reportSlots(source, { ...place, pool: mortal(place.pool, { atRest }) });
    const isWaiting = async () => {
      const { rows } = await source.query(
        `select from pg_stat_activity where wait_event_type = 'Lock' and datname = $1`,
        [new URL(fixture.placeUrl).pathname.slice(1)],
      );
      return rows.length === 1;
    };
    await waitFor(isWaiting, { what: 'the report waits' });
    const { rows } = await holder.query('select from organizations for update skip locked');
    expect(rows).toHaveLength(3);
    await holder.query('commit');
    holder.release();
    await report;
    const { rows: told } = await place.pool.query('select from organizations where monitors_told = 1');
    expect(told).toHaveLength(3);
  });
});

it('an organization that the place refuses, with sixty projects, holds up no row of another one', async () => {
  const { source, place } = fixture;
  const { projectId } = await seedProject(source);
  await copyAll(source, place);
  const { organizationId } = await seedProject(source);
  await place.pool.query(
    'insert into organizations (organization_id, name, plan) select gen_random_uuid(), name, plan from jsonb_populate_record(null::organizations, $1)',
    [
      (
        await source.query('select to_jsonb(o) as row from organizations o where organization_id = $1', [
          organizationId,
        ])
      ).rows[0]?.row,
    ],
  );
  await source.query(
    `insert into projects (project_id, organization_id, name, name_key)
     select gen_random_uuid(), $1, 'p' || n, 'p' || n from generate_series(1, 60) n`,
    [organizationId],
  );
  await source.query(
    `insert into credentials (project_id, credential_id, name, preset, digest) values ($1, 'c1', 'c1', 'manage', '\\x00')`,
    [projectId],
  );
  let result: unknown;
  while (result !== 'idle') result = await copyDirectory(source, place).catch(() => 'refused');
  expect((await place.pool.query('select from credentials')).rowCount).toBe(1);
});

it('what was read before a restore of the default database is not written after the full copy', async () => {
  const { source, place } = fixture;
  for (let count = 0; count < 8; count += 1) await seedProject(source);
  await source.query(
    `update projects set name = 'bad' where project_id = (select max(project_id::text)::uuid from projects)`,
  );
  await place.pool.query(`alter table projects add constraint no_bad check (name <> 'bad')`);
  const before = await readDirectory(place.pool);
  let rests = 0;
  // At its eighth pause the first process has written a part of what it read, and goes on after another one's full copy.
  const first = mortal(source, {
    atRest: async () => {
      rests += 1;
      if (rests !== 8) return;
      await inTransaction(source, async (tx) => {
        await tx.query('set local session_replication_role = replica');
        for (const table of ['projects', 'organizations', 'directory_changes'])
          await tx.query(`delete from ${table}`);
      });
      await startFill(source, place);
      await copyAll(source, place);
    },
  });
  await copyDirectory(first, place).catch(() => undefined);
  expect(rests).toBeGreaterThanOrEqual(8);
  await copyAll(source, place);
  const now = await readDirectory(place.pool);
  expect([now.organizations, now.projects]).toEqual([before.organizations, before.projects]);
});
