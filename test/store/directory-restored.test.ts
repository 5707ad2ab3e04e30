// A database goes back to the past while a process stands still in the midst of a batch, in every order: what is backed up and
// restored, between which of its steps, and whether another process copies meanwhile. Nothing here depends on time.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { copyDirectory } from '../../src/store/directory/copy-directory.ts';
import type { Queryable } from '../../src/store/postgres/pool.ts';
import { copyAll, type DirectoryFixture, openDirectoryFixture } from '../support/directory-fixture.ts';
import { mortal } from '../support/mortal-database.ts';
import { seedProject } from '../support/seed.ts';
import { backUp, restore } from '../support/stored-directory.ts';

let fixture: DirectoryFixture;
let projectId: string;

beforeAll(async () => {
  fixture = await openDirectoryFixture();
  ({ projectId } = await seedProject(fixture.source));
  await copyAll(fixture.source, fixture.place);
});
afterAll(() => fixture?.close());

const rename = (name: string) =>
  fixture.source.query('update projects set name = $2 where project_id = $1', [projectId, name]);

const projectsOf = async (db: Queryable) =>
  (await db.query<{ row: string }>('select t::text as row from projects t order by 1')).rows;

/** One step of a process; `atRest` is what happens while it stands still, from its rest 1. Returns how many it had. */
async function runStanding(atRest: (rest: number) => Promise<void>): Promise<number> {
  const { source, place } = fixture;
  let rests = 0;
  const fate = {
    atRest: async () => {
      rests += 1;
      await atRest(rests);
    },
  };
  await copyDirectory(mortal(source, fate), { ...place, pool: mortal(place.pool, fate) });
  return rests;
}

type Restored = 'source' | 'place';

const copy = () => copyDirectory(fixture.source, fixture.place);
const change = () => rename(`changed ${randomUUID()}`);
const OTHERS = {
  nothing: async () => undefined,
  change,
  'change and copy': async () => {
    await change();
    // The step of a full copy that begins, or a batch.
    await copy();
  },
};
type Others = keyof typeof OTHERS;

/** What goes back, what others do between the backup and the restore, and after it. */
const COURSES = (['source', 'place'] as const).flatMap((restored) =>
  (['nothing', 'change and copy'] as const).flatMap((before) =>
    (Object.keys(OTHERS) as Others[]).map((after): [Restored, Others, Others] => [restored, before, after]),
  ),
);

/** A process copies. The backup is made at one of its rests, 0 before the first one, the restore at a later one or its end. */
async function copyThrough(
  [restored, before, after]: [Restored, Others, Others],
  backUpAt: number,
  restoreAt: number,
): Promise<void> {
  const pool = restored === 'source' ? fixture.source : fixture.place.pool;
  let backup = await backUp(pool);
  const restoreNow = async () => {
    await restore(pool, backup);
    await OTHERS[after]();
  };
  await change();
  if (backUpAt === 0) await OTHERS[before]();
  const rests = await runStanding(async (rest) => {
    if (rest === backUpAt) {
      backup = await backUp(pool);
      await OTHERS[before]();
    }
    if (rest === restoreAt) await restoreNow();
  });
  if (rests < restoreAt) await restoreNow();
}

it.each(COURSES)(
  'the %s goes back while a process copies; others do before: %s; and after: %s',
  async (...course) => {
    await change();
    const rests = await runStanding(async () => undefined);
    for (let backUpAt = 0; backUpAt <= rests; backUpAt += 1)
      for (let restoreAt = backUpAt + 1; restoreAt <= rests + 1; restoreAt += 1) {
        await copyThrough(course, backUpAt, restoreAt);
        await copyAll(fixture.source, fixture.place);
        expect(
          await projectsOf(fixture.place.pool),
          `backup at ${backUpAt}, restore at ${restoreAt}`,
        ).toEqual(await projectsOf(fixture.source));
      }
  },
);
