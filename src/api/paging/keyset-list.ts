// Pages of the lists that are ordered by (time, id). The list of monitors is ordered by name: routes/monitors.ts.
import { z } from 'zod';
import type { KeysetPage, Positioned } from '../../store/postgres/keyset.ts';
import { cutPage, decodeCursor, encodeCursor } from './cursor.ts';

/** Since 1970. Postgres keeps more digits than a Date. */
const microseconds = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const position = z.tuple([microseconds, z.string()]);
// Ids of timeline entries are UUIDs, which Postgres refuses to compare with other text.
const uuidPosition = z.tuple([microseconds, z.uuid()]);

interface PageQuery {
  limit: number;
  cursor?: string;
}

/** The rows to read: one more than is shown. The cursor must be of `list`. Throws `validation_failed`. */
export function readPage(
  list: string,
  { limit, cursor }: PageQuery,
  ids: 'text' | 'uuid' = 'text',
): KeysetPage {
  const after = decodeCursor(list, ids === 'uuid' ? uuidPosition : position, cursor);
  return { limit: limit + 1, after: after && { micros: after[0], id: after[1] } };
}

/** The page of rows that were read with `readPage`. */
export function presentPage<Row, Item>(
  list: string,
  { limit }: PageQuery,
  rows: readonly Positioned<Row>[],
  present: (row: Row) => Item,
): { items: Item[]; nextCursor?: string } {
  const page = cutPage(rows, limit, (last) => encodeCursor(list, [last.position.micros, last.position.id]));
  return { items: page.rows.map(({ item }) => present(item)), nextCursor: page.nextCursor };
}
