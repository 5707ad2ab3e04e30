// Copies changes of the directory from the default database to a place (docs/adr/0013). Any number of processes may do it
// at once, and die after each statement: what they have done is done, and the rest is done again.

import { isFaultOfData } from '../postgres/database-error.ts';
import type { Place } from '../postgres/databases.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { copyBatch, type DirectoryRows, readLines } from './copy-batch.ts';
import { copyInHalves } from './copy-in-halves.ts';
import { fillPlace, queueRows } from './fill-place.ts';
import { findBatch, findPlace, registerPlace, startFill, wentBack } from './places.ts';
import { claimPlace, NO_PLACES_ON_CITUS, PlaceRefused } from './whose-place.ts';

/** Lines of a batch, and keys of a page of a full copy. */
const LINES = 500;
/** Of a batch that was refused for its data. Each copier has so many rows in memory, and no more. */
const MOST_LINES = 8 * LINES;

/** Each is as long as a batch: many calls that bring rows at once overtake each other. */
const BRING_ATTEMPTS = 50;

/** `waits`: for `migrate` in the place, or for a transaction that is older than the place. */
export type CopyResult = 'more' | 'idle' | 'waits';

/**
 * One step: makes the place known, finds out whether a database went back to the past, and copies a batch. Throws
 * `PlaceRefused`, and the errors of either database.
 */
export async function copyDirectory(source: Database, place: Place, lines = LINES): Promise<CopyResult> {
  if (isDistributed()) throw new PlaceRefused(NO_PLACES_ON_CITUS);
  const known = await findPlace(source, place);
  if (!known) {
    await registerPlace(source, place);
    return 'more';
  }
  const copy = await claimPlace(place, known.installationId);
  if (copy.schemaVersion < known.schemaVersion) return 'waits';
  if (copy.batch !== known.ended && (await wentBack(source, place, copy.batch))) {
    await startFill(source, place);
    return 'more';
  }
  if (!known.isSeen) await registerPlace(source, place);
  if (known.fillStep === undefined) return (await copyLines(source, place, lines)) ? 'more' : 'idle';
  await fillPlace(source, place, known, lines);
  return known.isSeen ? 'more' : 'waits';
}

/**
 * Copies these rows now: for a call that needs them in the place and has not found them. They may be there already, and
 * need not exist. What they refer to comes with them only if it is among them.
 */
export async function bringRows(
  source: Database,
  place: Place,
  rows: readonly DirectoryRows[],
): Promise<void> {
  for (const { table, keys } of rows) await queueRows(source, place, table, keys);
  // The batch of somebody else may be in the place first: then this one writes nothing, and is read again.
  for (let attempt = 1; attempt <= BRING_ATTEMPTS; attempt += 1) {
    const { result, lines } = await copyBatch(source, place, { rows, limit: LINES });
    if (result !== 'stale' && lines < LINES) return;
    if (result === 'stale' && (await isUnknown(source, place))) return;
  }
}

/** Whether the place cannot have a batch before a step of `copyDirectory`. Notes the batch that it has. */
async function isUnknown(source: Queryable, place: Place): Promise<boolean> {
  const batch = await findBatch(place);
  return batch === undefined || (await wentBack(source, place, batch));
}

/** Whether all copies that are queued have been made and no full copy is under way. */
export async function isCopied(source: Queryable, { jurisdiction }: Place): Promise<boolean> {
  const { rows } = await source.query<{ copied: boolean }>(
    `select fill_step is null and not exists (
       select from directory_changes c where c.jurisdiction = p.jurisdiction) as copied
     from directory_places p where p.jurisdiction = $1`,
    [jurisdiction],
  );
  return rows[0]?.copied ?? false;
}

/**
 * A batch; one that the place refuses for its data again with more lines, because the row that it lacks may be in a later one.
 * What is refused even so is set aside, so that it holds up no other row, and comes again with what it lacks.
 */
async function copyLines(source: Database, place: Place, lines: number): Promise<boolean> {
  try {
    const batch = await copyBatch(source, place, { limit: lines });
    return batch.result === 'stale' || batch.lines >= lines;
  } catch (error) {
    if (!isFaultOfData(error)) throw error;
  }
  await copyInHalves(source, place, await readLines(source, place, MOST_LINES));
  return true;
}
