// A full copy of the directory, page by page: it only queues lines, and copy-directory.ts copies them (docs/adr/0013).
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { DIRECTORY_TABLES, type DirectoryTable, keysAfter, type RowKey } from './directory-tables.ts';
import type { KnownPlace } from './places.ts';

/** Queues rows for the place. */
export async function queueRows(
  source: Queryable,
  place: Pick<Place, 'jurisdiction'>,
  table: string,
  keys: readonly (RowKey | string)[],
): Promise<void> {
  await source.query('select queue_directory_rows($1, $2, $3::text[]::jsonb[])', [
    place.jurisdiction,
    table,
    keys.map((key) => (typeof key === 'string' ? key : JSON.stringify(key))),
  ]);
}

interface Page {
  /** The keys of each table, as text. */
  keys: ReadonlyMap<string, string[]>;
  /** Where the next page begins, as text; undefined: the step is done. */
  after?: string;
}

/**
 * Queues the next page of the full copy that is under way. It commits together with how far the copy is, and does nothing
 * where another process was first, or where another full copy has begun since.
 */
export async function fillPlace(
  source: Database,
  place: Place,
  known: KnownPlace,
  limit: number,
): Promise<void> {
  const { fillId, fillStep: step, fillAfter: after } = known;
  if (step === undefined || !known.isSeen) return;
  const table = DIRECTORY_TABLES[step];
  // The last step has what the place has, so that what the directory lacks goes there too.
  const ofPlace = table ? undefined : await readCopiesPage(place.pool, after, limit);
  await inTransaction(source, async (tx) => {
    const { rowCount } = await tx.query(
      `select from directory_places
       where jurisdiction = $1 and fill_step = $2 and fill_after is not distinct from $3::jsonb and fill_id = $4
       for no key update`,
      [place.jurisdiction, step, after, fillId],
    );
    if (rowCount === 0) return;
    // In this transaction: what is read is not older than a restore of this database.
    const page = table ? await readPage(tx, table, after, limit) : ofPlace;
    if (!page) return;
    const nextStep = page.after === undefined ? step + 1 : step;
    await tx.query(
      'update directory_places set fill_step = $2, fill_after = $3::jsonb where jurisdiction = $1',
      [place.jurisdiction, nextStep > DIRECTORY_TABLES.length ? null : nextStep, page.after],
    );
    for (const [name, keys] of page.keys) await queueRows(tx, place, name, keys);
  });
}

async function readPage(
  source: Queryable,
  table: DirectoryTable,
  after: string | undefined,
  limit: number,
): Promise<Page> {
  const { rows } = await source.query<{ key: string }>(keysAfter(table), [after, limit]);
  return {
    keys: new Map([[table.name, rows.map(({ key }) => key)]]),
    after: rows.length < limit ? undefined : rows.at(-1)?.key,
  };
}

async function readCopiesPage(pool: Queryable, after: string | undefined, limit: number): Promise<Page> {
  const { rows } = await pool.query<{ table: string; key: string; place: string }>(
    `select table_name as table, row_key::text as key, jsonb_build_array(table_name, row_key)::text as place
     from directory_rows
     where $1::jsonb is null or (table_name, row_key) > (($1::jsonb ->> 0) collate "C", $1::jsonb -> 1)
     order by table_name, row_key limit $2`,
    [after, limit],
  );
  const keys = new Map(
    [...Map.groupBy(rows, ({ table }) => table)].map(([table, of]) => [table, of.map(({ key }) => key)]),
  );
  return { keys, after: rows.length < limit ? undefined : rows.at(-1)?.place };
}
