// Copies of the directory against the directory itself: whatever changes, whichever process dies or stands still, and
// whichever database goes back to the past, a place has in the end what the directory has, and on the way no row gets older.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { copyDirectory } from '../../src/store/directory/copy-directory.ts';
import { openPool, type Pool } from '../../src/store/postgres/pool.ts';
import { CHANGE_KINDS, type Change, DirectoryWriters, MARKS } from '../support/directory-changes.ts';
import {
  copyAll,
  type DirectoryFixture,
  openDirectoryFixture,
  readDirectory,
} from '../support/directory-fixture.ts';
import { type Fate, mortal } from '../support/mortal-database.ts';
import { backUp, restore, type StoredDirectory } from '../support/stored-directory.ts';

let fixture: DirectoryFixture;
/** Of the copiers: who holds a lock in these tests holds it until the next step. */
let source: Pool;
let place: Pool;

beforeAll(async () => {
  fixture = await openDirectoryFixture();
  const open = (url: string) =>
    openPool({ databaseUrl: `${url}?options=-c%20lock_timeout%3D200`, size: 6, applicationName: 'copier' });
  source = open(fixture.sourceUrl);
  place = open(fixture.placeUrl);
});
afterAll(async () => {
  await Promise.all([source?.end(), place?.end()]);
  await fixture?.close();
});

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom(...CHANGE_KINDS),
  row: fc.nat(2),
  other: fc.nat(2),
});

type Step =
  | { do: 'write'; changes: Change[]; end: 'commit' | 'rollback' | 'later' }
  | { do: 'commit'; index: number }
  | { do: 'copy'; lines: number; fate: Pick<Fate, 'statements' | 'isAnswerLost'> }
  | { do: 'stall'; lines: number; rests: number }
  | { do: 'resume' | 'backUpSource' | 'backUpPlace' | 'restoreSource' | 'restorePlace' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      changes: fc.array(change, { minLength: 1, maxLength: 4 }),
      end: fc.constantFrom('commit' as const, 'commit' as const, 'rollback' as const, 'later' as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('commit' as const), index: fc.nat(3) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('copy' as const),
      lines: fc.integer({ min: 1, max: 4 }),
      fate: fc.record({
        statements: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
        isAnswerLost: fc.boolean(),
      }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('stall' as const),
      lines: fc.integer({ min: 1, max: 4 }),
      rests: fc.integer({ min: 1, max: 8 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'resume' as const,
        'backUpSource' as const,
        'backUpPlace' as const,
        'restoreSource' as const,
        'restorePlace' as const,
      ),
    }),
  },
);

/** One run: both databases, their writers and backups, and the copiers that stand still. */
class Run {
  readonly #writers = new DirectoryWriters(fixture.source);
  #sourceBackup: StoredDirectory;
  #placeBackup: StoredDirectory;
  #stalled: { resume: () => void; ended: Promise<unknown> }[] = [];
  #seen = new Map<string, number>();
  /** The place may have rows that the default database has lost, until a full copy has been made. */
  #isAhead = false;

  constructor(backups: { source: StoredDirectory; place: StoredDirectory }) {
    this.#sourceBackup = backups.source;
    this.#placeBackup = backups.place;
  }

  async take(next: Step): Promise<void> {
    switch (next.do) {
      case 'write':
        return await this.#writers.write(next.changes, next.end);
      case 'commit':
        return await this.#writers.commit(next.index);
      case 'copy':
        await this.#copy({ ...next.fate }, next.lines);
        return await this.#seeNothingOlder();
      case 'stall':
        return await this.#stall(next);
      case 'resume':
        await this.#resume();
        return await this.#seeNothingOlder();
      case 'backUpSource':
        this.#sourceBackup = await backUp(fixture.source);
        return;
      case 'backUpPlace':
        this.#placeBackup = await backUp(fixture.place.pool);
        return;
      case 'restoreSource':
        return await this.#restoreSource();
      case 'restorePlace':
        await restore(fixture.place.pool, this.#placeBackup);
        this.#seen = new Map();
    }
  }

  async end(): Promise<void> {
    await this.#resume();
    await this.#writers.commitAll();
    await this.#seeNothingOlder();
    // Without limits: of a process that died the server may still hold locks for a moment.
    await copyAll(fixture.source, fixture.place);
  }

  async #restoreSource(): Promise<void> {
    await this.#writers.commitAll();
    await restore(fixture.source, this.#sourceBackup);
    this.#isAhead = true;
    this.#seen = new Map();
  }

  /** A death, a lock that somebody holds: the step is done again later, by whomever. */
  async #copy(fate: Fate, lines: number): Promise<void> {
    const eu = { jurisdiction: 'eu' as const, pool: mortal(place, fate) };
    await copyDirectory(mortal(source, fate), eu, lines).catch(() => undefined);
  }

  /** A copier that stands still after some of its statements. */
  async #stall({ lines, rests }: { lines: number; rests: number }): Promise<void> {
    const { promise: isResumed, resolve: resume } = Promise.withResolvers<void>();
    const { promise: isStalled, resolve: stall } = Promise.withResolvers<void>();
    let left = rests;
    const fate: Fate = {
      atRest: async () => {
        left -= 1;
        if (left !== 0) return;
        stall();
        await isResumed;
      },
    };
    const eu = { jurisdiction: 'eu' as const, pool: mortal(place, fate) };
    const ended = copyDirectory(mortal(source, fate), eu, lines).catch(() => undefined);
    await Promise.race([isStalled, ended]);
    this.#stalled.push({ resume, ended });
  }

  async #resume(): Promise<void> {
    for (const { resume, ended } of this.#stalled.splice(0)) {
      resume();
      await ended;
    }
  }

  /** A copier that stood still may write once more what the default database has lost. */
  async #hasCaughtUp(): Promise<boolean> {
    if (this.#stalled.length > 0) return false;
    const [copied, present] = await Promise.all([
      readDirectory(fixture.place.pool),
      readDirectory(fixture.source),
    ]);
    return isDeepStrictEqual(copied, present);
  }

  async #seeNothingOlder(): Promise<void> {
    this.#isAhead &&= !(await this.#hasCaughtUp());
    if (this.#isAhead) return;
    const { rows } = await fixture.place.pool.query<{ key: string; mark: number }>(MARKS);
    for (const { key, mark } of rows) {
      expect(mark, key).toBeGreaterThanOrEqual(this.#seen.get(key) ?? 0);
      this.#seen.set(key, mark);
    }
  }
}

it('a place has in the end what the directory has, and never an older row after a newer one', async () => {
  const backUpBoth = async () => ({
    source: await backUp(fixture.source),
    place: await backUp(fixture.place.pool),
  });
  const unknown = await backUpBoth();
  await copyAll(source, { jurisdiction: 'eu', pool: place });
  const copied = await backUpBoth();
  const runs = Number(process.env.BEATKEEPER_TEST_RUNS ?? 60);
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(step, { minLength: 5, maxLength: 40 }), async (isNew, steps) => {
      const first = isNew ? unknown : copied;
      await restore(fixture.source, first.source);
      await restore(fixture.place.pool, first.place);
      const run = new Run(first);
      try {
        for (const next of steps) await run.take(next);
      } finally {
        await run.end();
      }
      expect(await readDirectory(fixture.place.pool)).toEqual(await readDirectory(fixture.source));
    }),
    { numRuns: runs },
  );
});
