// Two databases for tests of the directory's copies: the default one, and that of the jurisdiction eu.

import { setTimeout as delay } from 'node:timers/promises';
import { copyDirectory, isCopied } from '../../src/store/directory/copy-directory.ts';
import { DIRECTORY_TABLES } from '../../src/store/directory/directory-tables.ts';
import type { Place } from '../../src/store/postgres/databases.ts';
import type { Database, Pool, Queryable } from '../../src/store/postgres/pool.ts';
import { openDatabaseFixture } from './database-fixture.ts';

export interface DirectoryFixture {
  source: Pool;
  sourceUrl: string;
  place: Place;
  placeUrl: string;
  close(): Promise<void>;
}

/** Nothing is copied yet. */
export async function openDirectoryFixture(): Promise<DirectoryFixture> {
  const [source, place] = await Promise.all([openDatabaseFixture(), openDatabaseFixture()]);
  return {
    source: source.pool,
    sourceUrl: source.databaseUrl,
    place: { jurisdiction: 'eu', pool: place.pool },
    placeUrl: place.databaseUrl,
    async close() {
      await Promise.all([source.close(), place.close()]);
    },
  };
}

/**
 * Copies until all is copied; throws what a step throws. Other databases of the server may have transactions for which a
 * full copy waits.
 */
export async function copyAll(source: Database, place: Place, lines?: number): Promise<void> {
  for (;;) {
    const result = await copyDirectory(source, place, lines);
    if (result === 'idle' && (await isCopied(source, place))) return;
    if (result !== 'more') await delay(20);
  }
}

/** What a place is to have of each table: rows as JSON, in the order of their texts. */
export async function readDirectory(db: Queryable): Promise<Record<string, string[]>> {
  const directory: Record<string, string[]> = {};
  for (const { name, left, except } of DIRECTORY_TABLES) {
    const { rows } = await db.query<{ row: string }>(
      `select (to_jsonb(t) - $1::text[])::text as row from ${name} t where not (${except ?? 'false'}) order by 1`,
      [left],
    );
    directory[name] = rows.map(({ row }) => row);
  }
  return directory;
}
