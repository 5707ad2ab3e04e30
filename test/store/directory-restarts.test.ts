// A full copy costs each key of the directory a line and a write: none starts because a process dies, or because two copy.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { copyDirectory } from '../../src/store/directory/copy-directory.ts';
import { copyAll, type DirectoryFixture, openDirectoryFixture } from '../support/directory-fixture.ts';
import { Death, type Fate, mortal } from '../support/mortal-database.ts';
import { seedProject } from '../support/seed.ts';

let fixture: DirectoryFixture;

beforeEach(async () => {
  fixture = await openDirectoryFixture();
  for (let batch = 0; batch < 2; batch += 1) {
    await seedProject(fixture.source);
    await copyAll(fixture.source, fixture.place);
  }
});
afterEach(() => fixture?.close());

async function expectNoFullCopy(): Promise<void> {
  const { rows } = await fixture.source.query('select fill_step from directory_places');
  expect(rows).toEqual([{ fill_step: null }]);
}

/** One step of a process with this fate; true if it lives to its end. */
async function survives(fate: Fate): Promise<boolean> {
  const { source, place } = fixture;
  const eu = { ...place, pool: mortal(place.pool, fate) };
  return await copyDirectory(mortal(source, fate), eu).then(
    () => true,
    (error: unknown) => {
      if (error instanceof Death) return false;
      throw error;
    },
  );
}

it('a process that dies at any of its statements leaves no reason for a full copy', async () => {
  let isAlive = false;
  for (let statements = 1; !isAlive; statements += 1) {
    await seedProject(fixture.source);
    isAlive = await survives({ statements, isAnswerLost: true });
    expect(await copyDirectory(fixture.source, fixture.place)).not.toBe('waits');
    await expectNoFullCopy();
  }
});

it('a second process that copies between any two steps of the first one sees no reason for a full copy', async () => {
  let isPast = false;
  for (let rest = 1; !isPast; rest += 1) {
    await seedProject(fixture.source);
    let rests = 0;
    const atRest = async () => {
      rests += 1;
      if (rests === rest) await copyDirectory(fixture.source, fixture.place);
    };
    await survives({ atRest });
    isPast = rests < rest;
    await expectNoFullCopy();
  }
});
