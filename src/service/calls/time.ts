// Times of the wire: milliseconds of the database's clock as RFC 3339, and back.

export function toTime(ms: number): string {
  return new Date(ms).toISOString();
}

export function optionalTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : toTime(ms);
}

export function optionalMs(time: string | undefined): number | undefined {
  return time === undefined ? undefined : Date.parse(time);
}
