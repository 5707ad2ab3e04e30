// One batch of copies of the directory (docs/adr/0013): lines and rows of one moment of the default database, written into the
// place in one transaction. A process may die after each statement.
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inSnapshot, inTransaction } from '../postgres/transaction.ts';
import { DIRECTORY_TABLES, hasKey, type RowKey } from './directory-tables.ts';
import { findPlace, type KnownPlace } from './places.ts';
import { type Copy, writeCopies } from './write-copies.ts';

/** How long a line that was refused is left alone. */
const SET_ASIDE = `interval '1 minute'`;

/** Rows of a table of the directory. */
export interface DirectoryRows {
  table: string;
  keys: readonly RowKey[];
}

export interface BatchOptions {
  /** Most lines; default: all. */
  limit?: number;
  /** Only these rows. */
  rows?: readonly DirectoryRows[];
}

/** Copies a batch. Returns whether there may be more lines. Throws what the place says of rows that it refuses. */
export async function copyBatch(source: Database, place: Place, options: BatchOptions): Promise<boolean> {
  const batch = await readBatch(source, place, options);
  if (!batch) return false;
  const isWritten = await writeBatch(source, place, batch.copies, batch.moment);
  return !isWritten || batch.copies.length >= (options.limit ?? Number.POSITIVE_INFINITY);
}

/** When a batch was read. What was read then is in the default database, unless that was restored since. */
export type Moment = Pick<KnownPlace, 'fillId' | 'begun'>;

export interface ReadBatch {
  copies: readonly Copy[];
  moment: Moment;
}

/** Lines and the rows of their keys, in the state of one moment. Undefined: there are none. */
export async function readBatch(
  source: Database,
  place: Place,
  options: BatchOptions,
): Promise<ReadBatch | undefined> {
  return await inSnapshot(source, async (tx) => {
    const copies = await readCopies(tx, place, options);
    const moment = copies.length > 0 ? await findPlace(tx, place) : undefined;
    return moment && { copies, moment };
  });
}

/**
 * Writes what was read at a moment, all or a part. False: nothing is written, because the place has a later batch of another
 * process, or one of the databases was restored; the next step finds out.
 */
export async function writeBatch(
  source: Database,
  place: Place,
  copies: readonly Copy[],
  moment: Moment,
): Promise<boolean> {
  // Its number is committed after the snapshot: a default database that was restored to a state without these rows lacks the
  // number as well.
  const batch = await beginBatch(source, place, moment);
  if (!batch) return false;
  const isWritten = await inTransaction(place.pool, async (tx) => {
    const { rowCount } = await tx.query(
      'update directory_copy set follows = begun, begun = $1 where begun between $2 and $1',
      [batch.begun, batch.ended],
    );
    if (rowCount === 0) return false;
    await writeCopies(tx, copies);
    return true;
  });
  if (isWritten) await endBatch(source, place, batch.begun, copies);
  return isWritten;
}

/**
 * Lines, what others refer to first, and the rows of their keys. What was refused comes after a while, when there is nothing
 * else, in another order each time: two rows that need each other meet in one part (copy-in-halves.ts).
 */
async function readCopies(
  tx: Queryable,
  { jurisdiction }: Place,
  { limit, rows }: BatchOptions,
): Promise<Copy[]> {
  const wanted = rows?.flatMap(({ table, keys }) => keys.map((key) => ({ table, key })));
  const { rows: lines } = await tx.query<Omit<Copy, 'row'>>(
    `select c.table_name as table, c.row_key::text as key, c.number from directory_changes c
     where c.jurisdiction = $1 and ($4::jsonb is null or (c.table_name, c.row_key) in (
       select (w ->> 'table') collate "C", w -> 'key' from jsonb_array_elements($4) as w))
       and ($4 is not null or c.refused_at is null or (c.refused_at < clock_timestamp() - ${SET_ASIDE} and not exists (
         select from directory_changes f where f.jurisdiction = $1 and f.refused_at is null)))
     order by case when c.refused_at is not null then random() end, array_position($2::text[], c.table_name), c.number limit $3`,
    [jurisdiction, DIRECTORY_TABLES.map(({ name }) => name), limit, wanted && JSON.stringify(wanted)],
  );
  const copies: Copy[] = [];
  for (const table of DIRECTORY_TABLES) {
    const ofTable = lines.filter((line) => line.table === table.name);
    if (ofTable.length === 0) continue;
    const { rows: found } = await tx.query<{ row: string | null }>(
      `select to_jsonb(t)::text as row from unnest($1::text[]::jsonb[]) with ordinality as k (row_key, place)
       left join ${table.name} t on ${hasKey(table, 't', 'k.row_key')} order by k.place`,
      [ofTable.map(({ key }) => key)],
    );
    copies.push(...ofTable.map((line, index) => ({ ...line, row: found[index]?.row ?? null })));
  }
  return copies;
}

type Batch = Pick<KnownPlace, 'begun' | 'ended'>;

/** Undefined: the default database was restored since that moment, or a full copy began. */
async function beginBatch(
  source: Queryable,
  { jurisdiction }: Place,
  { fillId, begun }: Moment,
): Promise<Batch | undefined> {
  const { rows } = await source.query<Batch>(
    `update directory_places set begun = begun + 1 where jurisdiction = $1 and fill_id = $2 and begun >= $3
     returning begun, ended`,
    [jurisdiction, fillId, begun],
  );
  return rows[0];
}

/** Deletes the lines whose number is still that of the copy. One that somebody holds has another number soon. */
async function endBatch(
  source: Database,
  { jurisdiction }: Place,
  begun: number,
  copies: readonly Copy[],
): Promise<void> {
  await inTransaction(source, async (tx) => {
    // The place before its lines, as all lock them.
    await tx.query('update directory_places set ended = greatest(ended, $2) where jurisdiction = $1', [
      jurisdiction,
      begun,
    ]);
    await tx.query(
      `delete from directory_changes where ctid = any (array(${LINES_OF_COPIES}))`,
      valuesOf(jurisdiction, copies),
    );
  });
}

/** Sets lines aside that the place has refused; a change of their rows brings them back at once. */
export async function setAside(
  source: Queryable,
  { jurisdiction }: Place,
  copies: readonly Copy[],
): Promise<void> {
  await source.query(
    `update directory_changes set refused_at = clock_timestamp() where ctid = any (array(${LINES_OF_COPIES}))`,
    valuesOf(jurisdiction, copies),
  );
}

/** SQL: lines whose number is still that of the copy, but for those that somebody holds. */
const LINES_OF_COPIES = `select c.ctid from directory_changes c
  join unnest($2::text[], $3::text[]::jsonb[], $4::bigint[]) as v (table_name, row_key, number)
    on v.table_name = c.table_name and v.row_key = c.row_key and v.number = c.number
  where c.jurisdiction = $1 for update of c skip locked`;

const valuesOf = (jurisdiction: string, copies: readonly Copy[]) => [
  jurisdiction,
  copies.map(({ table }) => table),
  copies.map(({ key }) => key),
  copies.map(({ number }) => number),
];
