// Copies changes of the directory from the default database to a place (docs/adr/0013). Any number of processes may do it
// at once, and die after each statement: what they have done is done, and the rest is done again.

import { isFaultOfData } from '../postgres/database-error.ts';
import type { Place } from '../postgres/databases.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inSnapshot, inTransaction } from '../postgres/transaction.ts';
import { DIRECTORY_TABLES, hasKey, type RowKey } from './directory-tables.ts';
import { fillPlace, queueRows } from './fill-place.ts';
import {
  claimPlace,
  findPlace,
  type KnownPlace,
  PlaceRefused,
  registerPlace,
  startFill,
  wentBack,
} from './places.ts';
import { type Copy, writeCopies } from './write-copies.ts';

/** Lines of a batch, and keys of a page of a full copy. */
const LINES = 500;
/** Of a batch that was refused for its data: the row that it lacks may be in a later line. */
const LINES_AFTER_FAULT = 8 * LINES;

/** Each is as long as a batch: many calls that bring rows at once overtake each other. */
const BRING_ATTEMPTS = 20;

/** `waits`: for `migrate` in the place, or for a transaction that is older than the place. */
export type CopyResult = 'more' | 'idle' | 'waits';

/**
 * One step: makes the place known, finds out whether a database went back to the past, and copies a batch. Throws
 * `PlaceRefused`, and the errors of either database.
 */
export async function copyDirectory(source: Database, place: Place, lines = LINES): Promise<CopyResult> {
  if (isDistributed()) throw new PlaceRefused('On Citus no jurisdiction has a database of its own.');
  const known = await findPlace(source, place);
  if (!known) {
    await registerPlace(source, place);
    return 'more';
  }
  const copy = await claimPlace(place, known);
  if (copy.schemaVersion < known.schemaVersion) return 'waits';
  if (await wentBack(source, place, { known, copy })) {
    await startFill(source, place);
    return 'more';
  }
  if (!known.isSeen) await registerPlace(source, place);
  if (known.fillStep === undefined) return (await copyOrAll(source, place, lines)) ? 'more' : 'idle';
  // Nothing is copied before all is queued: what a row refers to may have no line yet.
  await fillPlace(source, place, known, lines);
  return known.isSeen ? 'more' : 'waits';
}

/** Rows of a table of the directory. */
export interface DirectoryRows {
  table: string;
  keys: readonly RowKey[];
}

/**
 * Copies these rows now: for a call that needs them in the place and has not found them. They may be there already, and
 * need not exist. What they refer to comes with them only if it is among them.
 */
export async function bringRows(
  source: Database,
  place: Place,
  rows: readonly DirectoryRows[],
): Promise<void> {
  for (const { table, keys } of rows) await queueRows(source, place, table, keys);
  let isLeft = true;
  // A batch that began later may be in the place first: then this one writes nothing, and is read again.
  for (let attempt = 1; isLeft && attempt <= BRING_ATTEMPTS; attempt += 1)
    isLeft = await copyBatch(source, place, { rows, limit: LINES });
}

/** Whether all copies that are queued have been made and no full copy is under way. */
export async function isCopied(source: Queryable, { jurisdiction }: Place): Promise<boolean> {
  const { rows } = await source.query<{ copied: boolean }>(
    `select fill_step is null and not exists (
       select from directory_changes c where c.jurisdiction = p.jurisdiction) as copied
     from directory_places p where p.jurisdiction = $1`,
    [jurisdiction],
  );
  return rows[0]?.copied ?? false;
}

/** A batch; one that the place refuses for its data again with more lines, and then with all of them. */
async function copyOrAll(source: Database, place: Place, lines: number): Promise<boolean> {
  for (const limit of [lines, LINES_AFTER_FAULT]) {
    try {
      return await copyBatch(source, place, { limit });
    } catch (error) {
      if (!isFaultOfData(error)) throw error;
    }
  }
  return await copyBatch(source, place, {});
}

interface BatchOptions {
  /** Most lines; default: all. */
  limit?: number;
  /** Only these rows. */
  rows?: readonly DirectoryRows[];
}

/** Returns whether there may be more lines. */
async function copyBatch(source: Database, place: Place, options: BatchOptions): Promise<boolean> {
  const copies = await inSnapshot(source, (tx) => readCopies(tx, place, options));
  if (copies.length === 0) return false;
  // Its number is committed after the snapshot: a default database that was restored to a state without these rows lacks the
  // number as well.
  const batch = await beginBatch(source, place);
  const isWritten = await inTransaction(place.pool, async (tx) => {
    // The place has a later batch of another process, or it was restored: the next step finds out.
    const { rowCount } = await tx.query(
      'update directory_copy set follows = begun, begun = $1 where begun between $2 and $1',
      [batch.begun, batch.ended],
    );
    if (rowCount === 0) return false;
    await writeCopies(tx, copies);
    return true;
  });
  if (isWritten) await endBatch(source, place, batch.begun, copies);
  return !isWritten || copies.length >= (options.limit ?? Number.POSITIVE_INFINITY);
}

/** Lines, what others refer to first, and the rows of their keys. */
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
     order by array_position($2::text[], c.table_name), c.number limit $3`,
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

async function beginBatch(source: Queryable, { jurisdiction }: Place): Promise<Batch> {
  const { rows } = await source.query<Batch>(
    'update directory_places set begun = begun + 1 where jurisdiction = $1 returning begun, ended',
    [jurisdiction],
  );
  if (!rows[0]) throw new Error(`The jurisdiction ${jurisdiction} has no place any more.`);
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
      `delete from directory_changes where ctid = any (array(
         select c.ctid from directory_changes c
         join unnest($2::text[], $3::text[]::jsonb[], $4::bigint[]) as v (table_name, row_key, number)
           on v.table_name = c.table_name and v.row_key = c.row_key and v.number = c.number
         where c.jurisdiction = $1 for update of c skip locked))`,
      [
        jurisdiction,
        copies.map(({ table }) => table),
        copies.map(({ key }) => key),
        copies.map(({ number }) => number),
      ],
    );
  });
}
