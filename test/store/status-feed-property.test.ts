// A reader that follows the cursors of the status feed has the last change of each monitor in the end: whatever commits out
// of order, is deleted from the records or is put back, in pages of every size.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decodeFeedCursor, encodeFeedCursor } from '../../src/api/paging/feed-cursor.ts';
import { haveChanged } from '../../src/store/monitors/feed-poll.ts';
import { touchLiveSql } from '../../src/store/monitors/live.ts';
import { deleteOldChanges } from '../../src/store/monitors/live-changes.ts';
import { isDistributed, ofProject } from '../../src/store/postgres/engine.ts';
import type { Connection, Pool } from '../../src/store/postgres/pool.ts';
import { openProjectFixture, type ProjectFixture } from '../support/database-fixture.ts';
import { FeedReader, type ReaderOptions } from '../support/feed-reader.ts';
import { seedMonitors } from '../support/seed.ts';

/** Each has monitors of its own, so that they never wait for each other. */
const WRITERS = 3;
const MONITORS = 4;
/** On Citus a read asks all machines many times. */
const RUNS = isDistributed() ? 6 : 60;
const TABLES = ['monitor_live', 'live_changes', 'live_changes_floor'];

let fixture: ProjectFixture;
let pool: Pool;
let writers: { projectId: string; keys: string[] }[];

beforeAll(async () => {
  fixture = await openProjectFixture();
  ({ pool } = fixture);
  const { organizationId } = fixture.project;
  writers = await Promise.all(
    Array.from({ length: WRITERS }, async (_, index) => {
      const projectId = crypto.randomUUID();
      await pool.query(
        'insert into projects (project_id, organization_id, name, name_key) values ($1, $2, $3, $3)',
        [projectId, organizationId, `project ${index}`],
      );
      const seeded = await seedMonitors(pool, { organizationId, projectId }, MONITORS);
      return { projectId, keys: seeded.map(({ monitorKey }) => monitorKey) };
    }),
  );
  for (const table of TABLES) await pool.query(`create table saved_${table} as select * from ${table}`);
});
afterAll(() => fixture?.close());

const page = fc.record({ limit: fc.integer({ min: 1, max: 5 }), stretch: fc.integer({ min: 1, max: 15 }) });
const writer = fc.nat({ max: WRITERS - 1 });
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ what: fc.constant('write' as const), writer, first: fc.nat({ max: 3 }) }),
  },
  { weight: 5, arbitrary: fc.record({ what: fc.constantFrom('commit', 'roll back'), writer }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constant('read' as const), page }) },
  { weight: 6, arbitrary: fc.record({ what: fc.constantFrom('poll', 'forget changes') }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constantFrom('save', 'restore') }) },
);

class Run {
  reader = new FeedReader(pool, { organizationId: fixture.project.organizationId });
  readonly #open = new Map<number, Connection>();
  #isRestored = false;

  async write(index: number, first: number): Promise<void> {
    let tx = this.#open.get(index);
    if (!tx) {
      tx = await pool.connect();
      this.#open.set(index, tx);
      await tx.query('begin');
    }
    const { projectId = '', keys = [] } = writers[index] ?? {};
    const values = [projectId, keys.slice(first)];
    await tx.query(
      `update monitor_live set last_sequence = last_sequence + 1 where project_id = $1 and monitor_key = any ($2)`,
      values,
    );
    await tx.query(
      `with named as (select project_id, monitor_key from monitor_live where project_id = $1 and monitor_key = any ($2)),
       ${touchLiveSql('named', ofProject('l', '$1'))} select from touched`,
      values,
    );
  }

  async end(index: number, how: 'commit' | 'rollback'): Promise<void> {
    const tx = this.#open.get(index);
    this.#open.delete(index);
    await tx?.query(how);
    tx?.release();
  }

  async endAll(how: 'commit' | 'rollback'): Promise<void> {
    for (const index of [...this.#open.keys()]) await this.end(index, how);
  }

  /** What a held call does in its time: without a change its cursor moves on. It knows its history itself. */
  async poll(): Promise<void> {
    const cursor = this.reader.cursor === undefined ? undefined : decodeFeedCursor(this.reader.cursor);
    if (!cursor || cursor.listing || this.#isRestored) return;
    const scope = { organizationId: fixture.project.organizationId };
    const { changed, moment } = await haveChanged(pool, [{ scope, since: cursor.snapshot }]);
    if (changed[0]) return;
    this.reader = this.reader.at(encodeFeedCursor({ ...cursor, snapshot: moment.snapshot }));
  }

  async read(options?: ReaderOptions): Promise<void> {
    this.#isRestored = false;
    await this.reader.read(options);
  }

  async restore(): Promise<void> {
    this.#isRestored = true;
    await this.copy(saved, live);
  }

  /** As a dump, and as putting it back. */
  async copy(from: (table: string) => string, to: (table: string) => string): Promise<void> {
    await this.endAll('rollback');
    const copies = TABLES.map(
      (table) => `truncate ${to(table)}; insert into ${to(table)} select * from ${from(table)}`,
    );
    await pool.query(`begin; ${copies.join('; ')}; commit`);
  }
}

const live = (table: string) => table;
const saved = (table: string) => `saved_${table}`;

async function take(run: Run, one: { what: string; writer?: number; first?: number; page?: ReaderOptions }) {
  const { what, writer: index = 0, first = 0 } = one;
  if (what === 'write') await run.write(index, first);
  else if (what === 'commit') await run.end(index, 'commit');
  else if (what === 'roll back') await run.end(index, 'rollback');
  else if (what === 'read') await run.read(one.page);
  else if (what === 'poll') await run.poll();
  else if (what === 'save') await run.copy(live, saved);
  else if (what === 'restore') await run.restore();
  else {
    // The second time there is nothing from before the first one.
    for (let round = 0; round < 2; round += 1) {
      await pool.query("update live_changes_floor set next_at = next_at - interval '2 minutes'");
      await deleteOldChanges(pool, 100);
    }
  }
}

it('a reader that follows the cursors comes to the last change of each monitor', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), page, async (steps, last) => {
      const run = new Run();
      try {
        for (const one of steps) await take(run, one);
        await run.endAll('commit');
        await run.reader.drain(last);
        const { rows } = await pool.query('select monitor_key, last_sequence from monitor_live');
        const expected = new Map(rows.map((row) => [row.monitor_key, row.last_sequence]));
        expect(run.reader.shown).toEqual(expected);
      } finally {
        await run.endAll('rollback');
      }
    }),
    { numRuns: RUNS },
  );
});
