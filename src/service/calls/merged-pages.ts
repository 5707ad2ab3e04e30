// A page of a list whose rows are in several databases. Each gives its own page from the same position on, and the page is
// the first part of all of them together: one order, one cursor.
import type { Positioned } from '../../store/postgres/keyset.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { readHome, type SharedHome } from './homes.ts';

/** The first `limit` rows, newest first by id. `read` gives as many of each database. Throws where one is away. */
export async function readMerged<Item>(
  homes: readonly SharedHome[],
  limit: number,
  read: (db: Database) => Promise<Positioned<Item>[]>,
): Promise<Positioned<Item>[]> {
  const [first = [], ...others] = await readEach(homes, read);
  if (others.length === 0) return first;
  const all = [first, ...others].flat();
  return all.sort((a, b) => (a.position.id < b.position.id ? 1 : -1)).slice(0, limit);
}

/** As `readEach`, and throws only when all others are done: a call that is repeated finds them done. */
export async function workInEach<Done>(
  homes: readonly SharedHome[],
  work: (db: Database) => Promise<Done>,
): Promise<Done[]> {
  const results = await Promise.allSettled(homes.map(async (home) => await readHome(home, work)));
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/** All at the same time. Throws where one is away. */
export async function readEach<Found>(
  homes: readonly SharedHome[],
  read: (db: Database) => Promise<Found>,
): Promise<Found[]> {
  return await Promise.all(homes.map(async (home) => await readHome(home, read)));
}
