// Moments: in TypeScript a number of milliseconds since 1970, by the database's clock, which all replicas share; in
// tables timestamptz, or bigint on the live row. SQL converts between them.

/** SQL: the clock, ms. It advances inside a transaction. */
export const NOW_MS = millis('clock_timestamp()');

/** SQL: a timestamptz as ms since 1970. */
export function millis(timestamp: string): string {
  return `(extract(epoch from ${timestamp}) * 1000)::bigint`;
}

/** SQL: the same of a timestamptz that has microseconds, which are cut off. */
export function wholeMillis(timestamp: string): string {
  return `floor(extract(epoch from ${timestamp}) * 1000)::bigint`;
}

/** SQL: ms since 1970 as a timestamptz. */
export function fromMillis(ms: string): string {
  return `to_timestamp(${ms} / 1000.0)`;
}

/** SQL: ms since 1970 as `toISOString` of Date writes them. */
export function isoText(ms: string): string {
  return `to_char(${fromMillis(`(${ms})`)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** SQL: a timestamptz as microseconds since 1970, which is all that Postgres keeps. */
export function micros(timestamp: string): string {
  return `(extract(epoch from ${timestamp}) * 1000000)::bigint`;
}

/** SQL: microseconds since 1970 as a timestamptz, exactly. */
export function fromMicros(us: string): string {
  return `(timestamptz '1970-01-01 00:00:00+00' + ${us}::bigint * interval '1 microsecond')`;
}
