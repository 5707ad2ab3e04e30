// Reads of organizations, projects and credentials. They are written in the default database, and each place has a copy, so
// that who calls is known while the default database is away.
import type { Queryable } from '../../store/postgres/pool.ts';
import { askHome, type Homes, jurisdictionAway } from './homes.ts';

export interface DirectoryAnswer<Found> {
  found: Found | undefined;
  /** Set where it comes from a copy, which may be older than what the default database has: whoever needs that is refused. */
  newestIsAway?: Error;
}

/** Finds something in the directory. */
export type ReadDirectory = <Found>(
  read: (db: Queryable) => Promise<Found | undefined>,
) => Promise<DirectoryAnswer<Found>>;

/** Of one database. */
export function directoryIn(db: Queryable): ReadDirectory {
  return async (read) => ({ found: await read(db) });
}

/**
 * Of the default database or, while that is away, of the first copy that has what is looked for. Throws
 * `temporarily_unavailable` where no copy has it: it may be newer than the copies.
 */
export function directoryOf([main, ...places]: Homes): ReadDirectory {
  if (places.length === 0) return directoryIn(main.db);
  return async (read) => {
    const answer = await askHome(main, read);
    if ('found' in answer) return { found: answer.found };
    const newestIsAway = jurisdictionAway(main, answer.fault);
    for (const place of places) {
      const copy = await askHome(place, read);
      if ('found' in copy && copy.found !== undefined) return { found: copy.found, newestIsAway };
    }
    throw newestIsAway;
  };
}
