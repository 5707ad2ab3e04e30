// Pages of the lists that are ordered by (time, id), or by id. The list of monitors is ordered by name:
// routes/monitors.ts.
import { z } from 'zod';
import type { KeysetPage, KeysetPosition, Positioned } from '../../store/postgres/keyset.ts';
import { cutPage, decodeCursor, encodeCursor } from './cursor.ts';

/** Since 1970. Postgres keeps more digits than a Date. */
const microseconds = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const POSITIONS = {
  timed: z.tuple([microseconds, z.string()]),
  // Ids of timeline entries are UUIDs, which Postgres refuses to compare with other text.
  uuid: z.tuple([microseconds, z.uuid()]),
  // A list by id (store/postgres/keyset.ts).
  id: z.tuple([z.string()]),
};

interface PageQuery {
  limit: number;
  cursor?: string;
}

/** The rows to read: one more than is shown. The cursor must be of `list`. Throws `validation_failed`. */
export function readPage(
  list: string,
  { limit, cursor }: PageQuery,
  order: keyof typeof POSITIONS = 'timed',
): KeysetPage {
  const after = decodeCursor<z.ZodType<[number, string] | [string]>>(list, POSITIONS[order], cursor);
  return { limit: limit + 1, after: after && toPosition(after) };
}

function toPosition([first, second]: [number, string] | [string]): KeysetPosition {
  return second === undefined ? { id: String(first) } : { micros: Number(first), id: second };
}

/** The page of rows that were read with `readPage`. */
export function presentPage<Row, Item>(
  list: string,
  { limit }: PageQuery,
  rows: readonly Positioned<Row>[],
  present: (row: Row) => Item,
): { items: Item[]; nextCursor?: string } {
  const page = cutPage(rows, limit, ({ position: { micros, id } }) =>
    encodeCursor(list, micros === undefined ? [id] : [micros, id]),
  );
  return { items: page.rows.map(({ item }) => present(item)), nextCursor: page.nextCursor };
}
