// Counts of a place, told to the default database, after one of the two went back to the past while the directory stayed as it was
// (docs/adr/0013).
import { afterEach, beforeEach, expect, it } from 'vitest';
import { reportSlots } from '../../src/store/directory/reservations.ts';
import { copyAll, type DirectoryFixture, openDirectoryFixture } from '../support/directory-fixture.ts';
import { mortal } from '../support/mortal-database.ts';
import { seedProject } from '../support/seed.ts';
import { backUp, restore } from '../support/stored-directory.ts';

let fixture: DirectoryFixture;

beforeEach(async () => {
  fixture = await openDirectoryFixture();
  await seedProject(fixture.source);
  await copyAll(fixture.source, fixture.place);
  await count(3);
});
afterEach(() => fixture?.close());

/** The place has so many monitors now, and says so. */
async function count(monitors: number): Promise<void> {
  await fixture.place.pool.query('update organizations set active_monitors = $1', [monitors]);
  await reportSlots(fixture.source, fixture.place);
}

async function told() {
  const { rows } = await fixture.source.query(
    `select s.monitors, o.monitors_elsewhere as elsewhere from organizations o
     join place_slots s using (organization_id)`,
  );
  return rows;
}

it('a default database that was restored is told the counts of now', async () => {
  const backup = await backUp(fixture.source);
  await count(5);
  await restore(fixture.source, backup);
  expect(await told()).toEqual([{ monitors: 3, elsewhere: 3 }]);
  await reportSlots(fixture.source, fixture.place);
  expect(await told()).toEqual([{ monitors: 5, elsewhere: 5 }]);
});

it('a place that was restored tells the counts that it has again', async () => {
  const backup = await backUp(fixture.place.pool);
  await count(5);
  await restore(fixture.place.pool, backup);
  await reportSlots(fixture.source, fixture.place);
  expect(await told()).toEqual([{ monitors: 3, elsewhere: 3 }]);
});

it('no report between any two steps of another one looks like a restore', async () => {
  const { source, place } = fixture;
  const reported = async () => {
    const { rows } = await place.pool.query<{ reported: number }>('select reported from directory_copy');
    return rows[0]?.reported ?? 0;
  };
  const before = await reported();
  let isPast = false;
  for (let rest = 1; !isPast; rest += 1) {
    let rests = 0;
    const atRest = async () => {
      rests += 1;
      if (rests === rest) await count(10 + rest);
    };
    await place.pool.query('update organizations set active_monitors = $1', [100 + rest]);
    await reportSlots(mortal(source, { atRest }), { ...place, pool: mortal(place.pool, { atRest }) });
    isPast = rests < rest;
  }
  expect((await reported()) - before).toBeLessThan(1_000);
});
