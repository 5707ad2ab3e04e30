// directory_places, in the default database, and directory_copy, in a place: which jurisdictions have copies of the
// directory, and whether one of the two databases went back to the past (docs/adr/0013). whose-place.ts says whose they are.
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { SCHEMA_VERSION } from './schema-version.ts';
import { lockCopy, type PlaceCopy } from './whose-place.ts';

/** What the default database knows of a place. */
export interface KnownPlace {
  installationId: string;
  schemaVersion: number;
  begun: number;
  ended: number;
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
  const { rows } = await source.query<KnownPlace & { fillStep: number | null; fillAfter: string | null }>(
    `select installation_id as "installationId", ${SCHEMA_VERSION} as "schemaVersion", begun, ended,
       fill_id as "fillId", fill_step as "fillStep", fill_after::text as "fillAfter",
       seen_from is not null and seen_from <= pg_snapshot_xmin(pg_current_snapshot()) as "isSeen"
     from directory_places cross join installation where jurisdiction = $1`,
    [jurisdiction],
  );
  const row = rows[0];
  return row && { ...row, fillStep: row.fillStep ?? undefined, fillAfter: row.fillAfter ?? undefined };
}

/** No process that stands still has begun so many batches. */
const BATCHES_APART = 1_000_000;

/** Whether one of the two databases was restored: batches have ended that the place lacks, or begun that the default one lacks. */
export async function wentBack(
  source: Queryable,
  place: Place,
  { known, copy }: { known: KnownPlace; copy: PlaceCopy },
): Promise<boolean> {
  if (copy.begun < known.ended) return true;
  // A full copy began, and the process died before the place had its number.
  if (known.begun - copy.begun >= BATCHES_APART) return true;
  // The place was restored while a process stood still, which then wrote an older batch.
  if (copy.follows < known.ended && known.ended < copy.begun) return true;
  if (copy.begun <= known.begun) return false;
  // A batch may have begun since `known` was read.
  const now = await findPlace(source, place);
  return now === undefined || copy.begun > now.begun;
}

/**
 * Begins a full copy, with numbers above all that were given. Run twice it begins anew. A process that stands still, and
 * has read what is no more, writes nothing after it.
 */
export async function startFill(source: Database, place: Place): Promise<void> {
  const { rows } = await place.pool.query<{ begun: number; reached: number }>(
    `select begun, (select coalesce(max(number), 0) from directory_rows) as reached from directory_copy`,
  );
  const { begun = 0, reached = 0 } = rows[0] ?? {};
  const first = await inTransaction(source, async (tx) => {
    await tx.query('select raise_directory_numbers($1)', [reached]);
    const { rows: raised } = await tx.query<{ begun: number; reported: number }>(
      `update directory_places set begun = greatest(begun, $2) + ${BATCHES_APART}, ended = least(ended, $2),
         fill_id = gen_random_uuid(), fill_step = 0, fill_after = null
       where jurisdiction = $1 returning begun, reported`,
      [place.jurisdiction, begun],
    );
    return raised[0] ?? { begun: 0, reported: 0 };
  });
  // Counts and reservations are told anew, in reports that are later than all before.
  await inTransaction(place.pool, async (tx) => {
    await lockCopy(tx);
    await tx.query('update directory_copy set begun = $1, follows = $1 where begun < $1', [first.begun]);
    await tx.query(`update directory_copy set reported = greatest(reported, $1) + ${BATCHES_APART}`, [
      first.reported,
    ]);
    await tx.query('update organizations set monitors_told = null, endpoints_told = null, told_by = 0');
    await tx.query('update used_reservations set is_reported = false');
  });
}
