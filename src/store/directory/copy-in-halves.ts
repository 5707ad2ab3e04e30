// Copies all rows of a batch but those that the place refuses for their data, such as one whose unique name a row of the place
// has that is no copy. Those are set aside and tried again later; meanwhile they hold up no other row.
import { isFaultOfData } from '../postgres/database-error.ts';
import type { Place } from '../postgres/databases.ts';
import type { Database } from '../postgres/pool.ts';
import { copyBatch, type DirectoryRows, setAside } from './copy-batch.ts';
import type { RowKey } from './directory-tables.ts';
import type { Copy } from './write-copies.ts';

/** Enough for a few rows among the most that are read at once. Where more are refused, the next step finds the others. */
const MOST_ATTEMPTS = 100;

/** Throws what the place said last of what it refuses, after that is set aside, and the errors of either database. */
export async function copyInHalves(source: Database, place: Place, copies: readonly Copy[]): Promise<void> {
  // What others refer to is in the first half.
  const parts: (readonly Copy[])[] = [copies];
  const refused: Copy[] = [];
  let fault: Error | undefined;
  for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt += 1) {
    const part = parts.shift();
    if (!part) break;
    try {
      // Each is read again: what was read before a restore of the default database must not be written after it.
      const { result } = await copyBatch(source, place, { rows: rowsOf(part), limit: part.length });
      if (result === 'stale') return;
    } catch (error) {
      if (!isFaultOfData(error)) throw error;
      fault = error as Error;
      if (part.length === 1) refused.push(...part);
      else parts.unshift(...halve(part));
    }
  }
  if (fault === undefined) return;
  await setAside(source, place, refused);
  throw fault;
}

function rowsOf(part: readonly Copy[]): DirectoryRows[] {
  return [...Map.groupBy(part, ({ table }) => table)].map(([table, of]) => ({
    table,
    keys: of.map(({ key }) => JSON.parse(key) as RowKey),
  }));
}

function halve(part: readonly Copy[]): (readonly Copy[])[] {
  const middle = Math.ceil(part.length / 2);
  return [part.slice(0, middle), part.slice(middle)];
}
