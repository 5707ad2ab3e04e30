// Paging by (time, id), newest first: a page costs the same however deep it is. Times go through microseconds,
// which is all that Postgres keeps, so that no row is skipped or repeated.

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

/** SQL: a timestamptz as microseconds since 1970. */
export function micros(column: string): string {
  return `(extract(epoch from ${column}) * 1000000)::bigint`;
}

/** SQL: microseconds since 1970 as a timestamptz, exactly. */
export function fromMicros(parameter: string): string {
  return `(timestamptz '1970-01-01 00:00:00+00' + ${parameter}::bigint * interval '1 microsecond')`;
}
