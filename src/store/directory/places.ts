// directory_places, in the default database, and directory_copy, in a place: which jurisdictions have copies of the
// directory, and whether one of the two databases went back to the past (docs/adr/0013). whose-place.ts says whose they are.
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { tellAnew } from './reservations.ts';
import { SCHEMA_VERSION } from './schema-version.ts';
import { lockCopy } from './whose-place.ts';

/** What the default database knows of a place. */
export interface KnownPlace {
  installationId: string;
  schemaVersion: string;
  /** The newest batch that the place is known to have; undefined: none. */
  ended?: string;
  /** The number of the newest report of its counts. */
  reported: number;
  /** Of the newest full copy. */
  fillId: string;
  /** Undefined: no full copy is under way. */
  fillStep?: number;
  /** The last key that is done of that step, as text. */
  fillAfter?: string;
  /** Whether every transaction has ended that could not see the place. */
  isSeen: boolean;
}

/** Makes the place known, so that changes of the directory queue lines for it. Safe to run many times at once. */
export async function registerPlace(source: Queryable, { jurisdiction }: Place): Promise<void> {
  await source.query('insert into directory_places (jurisdiction) values ($1) on conflict do nothing', [
    jurisdiction,
  ]);
  // Who begins after this statement sees the place. Ids of a database that was restored into another server may begin anew.
  await source.query(
    `update directory_places set seen_from = pg_current_xact_id()
     where jurisdiction = $1 and (seen_from is null or seen_from > pg_snapshot_xmax(pg_current_snapshot()))`,
    [jurisdiction],
  );
}

/** Undefined: it is not registered. */
export async function findPlace(source: Queryable, { jurisdiction }: Place): Promise<KnownPlace | undefined> {
  const { rows } = await source.query<
    KnownPlace & { ended: string | null; fillStep: number | null; fillAfter: string | null }
  >(
    `select installation_id as "installationId", ${SCHEMA_VERSION} as "schemaVersion", ended, reported,
       fill_id as "fillId", fill_step as "fillStep", fill_after::text as "fillAfter",
       seen_from is not null and seen_from <= pg_snapshot_xmin(pg_current_snapshot()) as "isSeen"
     from directory_places cross join installation where jurisdiction = $1`,
    [jurisdiction],
  );
  const row = rows[0];
  return (
    row && {
      ...row,
      ended: row.ended ?? undefined,
      fillStep: row.fillStep ?? undefined,
      fillAfter: row.fillAfter ?? undefined,
    }
  );
}

/** The newest batch that was written in the place. Undefined: nobody has claimed it. */
export async function findBatch({ pool }: Place): Promise<string | undefined> {
  const { rows } = await pool.query<{ batch: string }>('select batch from directory_copy');
  return rows[0]?.batch;
}

/** SQL: that batch $2 may be the next one of the place `p`. */
const IS_NEXT = `exists (select from directory_batches b
  where b.jurisdiction = p.jurisdiction and b.batch_id = $2 and b.follows = p.ended)`;

/**
 * Whether one of the two databases was restored: the place has, now as when `batch` was read, a batch that the default
 * database does not know. It knows the newest one that has ended, and those that follow it. Notes what the place has.
 */
export async function wentBack(source: Queryable, place: Place, batch: string): Promise<boolean> {
  const values = [place.jurisdiction, batch];
  await source.query(
    `update directory_places p set ended = $2 where p.jurisdiction = $1 and ${IS_NEXT}`,
    values,
  );
  // After the other one: somebody else may have noted the same at the same time.
  const { rowCount } = await source.query(
    `select from directory_places p where p.jurisdiction = $1 and (p.ended = $2 or ${IS_NEXT})`,
    values,
  );
  // A later one may have been written since `batch` was read.
  return rowCount === 0 && (await findBatch(place)) === batch;
}

/**
 * Begins a full copy, with numbers above all that the place has. Run twice it begins anew. The place first gets a batch that
 * nobody follows: what a process has read that stands still is not written any more. It may die then: the default database
 * does not know that batch, and another process begins the full copy.
 */
export async function startFill(source: Database, place: Place): Promise<void> {
  const { jurisdiction } = place;
  const known = await findPlace(source, place);
  if (!known) return;
  const begun = await inTransaction(place.pool, async (tx) => {
    await lockCopy(tx);
    await tellAnew(tx, known.reported);
    const { rows } = await tx.query<{ batch: string; reached: number }>(
      `update directory_copy set batch = gen_random_uuid()
       returning batch, (select coalesce(max(number), 0) from directory_rows) as reached`,
    );
    return rows[0];
  });
  if (!begun) return;
  await inTransaction(source, async (tx) => {
    await tx.query('select raise_directory_numbers($1)', [begun.reached]);
    // Of two that begin at once one does: the other one's batch is not that of the place any more, or is unknown.
    const { rowCount } = await tx.query(
      `update directory_places set ended = $2, fill_id = gen_random_uuid(), fill_step = 0, fill_after = null
       where jurisdiction = $1 and ended is not distinct from $3`,
      [jurisdiction, begun.batch, known.ended],
    );
    if (rowCount === 1)
      await tx.query('delete from directory_batches where jurisdiction = $1', [jurisdiction]);
  });
}
