// The names of databases in cursors. They stay the same for as long as the database has its jurisdictions.
import type { Homes, SharedHome } from './homes.ts';

/** Of the default database. */
export const DEFAULT_NAME = 'default';

/** The name of one of these. */
export function nameOfHome([first]: Homes, { pool, jurisdictions }: SharedHome): string {
  return pool === first.pool ? DEFAULT_NAME : `${jurisdictions[0]}`;
}
