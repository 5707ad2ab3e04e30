// Paging by (time, id): a page costs the same however deep it is. Times go through microseconds, which is all that
// Postgres keeps, so that no row is skipped or repeated.
import { fromMicros, micros } from './moments.ts';

/** The last row of the page before. */
export interface KeysetPosition {
  /** Microseconds since 1970. */
  micros: number;
  id: string;
}

export interface KeysetPage {
  /** Rows to read. Ask for one more than is shown, to know whether there is a next page. */
  limit: number;
  after?: KeysetPosition;
}

/** An item of a list with its place in it. */
export interface Positioned<Item> {
  item: Item;
  position: KeysetPosition;
}

/** SQL: what a SELECT of a list names besides its columns, for `positionedReader`. */
export function positionColumn(time: string): string {
  return `${micros(time)} as position_us`;
}

/** SQL: the position, to compare with the (time, id) of a row. */
export function positionSql({ micros: us, id }: KeysetPosition, bind: (value: unknown) => string): string {
  return `(${fromMicros(bind(us))}, ${bind(id)})`;
}

/** Reads a row of a list. `id`: the column that tells apart rows of one time. */
export function positionedReader<Item>(
  read: (row: object) => Item,
  id: string,
): (row: Record<string, unknown>) => Positioned<Item> {
  return (row) => ({
    item: read(row),
    position: { micros: row.position_us as number, id: row[id] as string },
  });
}
