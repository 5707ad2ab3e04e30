// One batch of copies of the directory (docs/adr/0013): lines and rows of one moment of the default database, written into the
// place in one transaction. A process may die after each statement.
import { randomUUID } from 'node:crypto';
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inSnapshot, inTransaction, withSettings } from '../postgres/transaction.ts';
import { DIRECTORY_TABLES, hasKey, type RowKey } from './directory-tables.ts';
import { findBatch, findPlace } from './places.ts';
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
  /** Only these rows, also while a full copy is under way. */
  rows?: readonly DirectoryRows[];
}

/**
 * `stale`: nothing is written, because the place has another batch than when this one was read, or one that the default
 * database does not know; the next step finds out.
 */
export type BatchResult = 'written' | 'stale' | 'empty';

/** Copies a batch. Throws what the place says of rows that it refuses. */
export async function copyBatch(
  source: Database,
  place: Place,
  options: BatchOptions,
): Promise<{ result: BatchResult; lines: number }> {
  const batch = await readBatch(source, place, options);
  if (batch === 'stale') return { result: 'stale', lines: 0 };
  if (batch.copies.length === 0) return { result: 'empty', lines: 0 };
  const result = (await writeBatch(place, batch)) ? 'written' : 'stale';
  if (result === 'written') await endBatch(source, place, batch);
  return { result, lines: batch.copies.length };
}

interface Batch {
  id: string;
  /** The batch that the place had before it was read. */
  follows: string;
  copies: readonly Copy[];
}

/**
 * Lines and the rows of their keys, in the state of one moment. The same transaction notes the batch: a default database
 * that knows it has what was read, whenever it was backed up and restored.
 */
async function readBatch(source: Database, place: Place, options: BatchOptions): Promise<Batch | 'stale'> {
  const follows = await findBatch(place);
  return await withSettings(source, 'set transaction isolation level repeatable read', async (tx) => {
    const known = await findPlace(tx, place);
    // Also where it is not known yet, or nobody has claimed it.
    if (follows === undefined || known?.ended !== follows) return 'stale';
    // Nothing is copied before all is queued: what a row refers to may have no line yet.
    if (known.fillStep !== undefined && !options.rows) return 'stale';
    const id = randomUUID();
    const copies = await readCopies(tx, place, options);
    if (copies.length > 0)
      await tx.query('insert into directory_batches (batch_id, jurisdiction, follows) values ($1, $2, $3)', [
        id,
        place.jurisdiction,
        follows,
      ]);
    return { id, follows, copies };
  });
}

/** Lines and the rows of their keys, to be copied in parts. */
export async function readLines(source: Database, place: Place, limit: number): Promise<Copy[]> {
  return await inSnapshot(source, (tx) => readCopies(tx, place, { limit }));
}

/** Writes it where the place still has the batch that it follows. */
async function writeBatch({ pool }: Place, { id, follows, copies }: Batch): Promise<boolean> {
  return await inTransaction(pool, async (tx) => {
    const { rowCount } = await tx.query('update directory_copy set batch = $1 where batch = $2', [
      id,
      follows,
    ]);
    if (rowCount === 1) await writeCopies(tx, copies);
    return rowCount === 1;
  });
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

/**
 * Notes that the place has the batch, and deletes the lines whose number is still that of the copy. One that somebody holds
 * has another number soon. A default database that was restored does not know the batch, and keeps its lines; so does one
 * that knows of a later batch already.
 */
async function endBatch(
  source: Database,
  { jurisdiction }: Place,
  { id, follows, copies }: Batch,
): Promise<void> {
  await inTransaction(source, async (tx) => {
    // The place before its lines, as all lock them.
    const { rowCount } = await tx.query(
      `update directory_places p set ended = $2 where p.jurisdiction = $1 and (p.ended = $2 or (p.ended = $3
         and exists (select from directory_batches b where b.batch_id = $2)))`,
      [jurisdiction, id, follows],
    );
    if (rowCount === 0) return;
    await tx.query('delete from directory_batches where jurisdiction = $1 and follows <> $2', [
      jurisdiction,
      id,
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
