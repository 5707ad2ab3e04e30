// Exports below HTTP, as the route makes them: with small pages, and to be broken off and to go on between any two pieces.
import { decodeExportCursor } from '../../src/api/paging/export-cursor.ts';
import { toLines, toTable } from '../../src/api/present/present-export.ts';
import { findPlan } from '../../src/domain/plan.ts';
import { walkExport } from '../../src/service/tenancy/export.ts';
import { beginExport, type ExportOrder } from '../../src/service/tenancy/export-pages.ts';
import type { Database } from '../../src/store/postgres/pool.ts';
import type { ProjectFixture } from '../support/database-fixture.ts';

/** Each page of history is cut: by its bytes after one line or two, else by its lines. */
export const SMALL_PAGES = { items: 2, wholeMonitors: 2, lines: 3, bytes: 700, monitors: 2 };

/** Of the fixture's organization; `more` replaces parts of it. Hours are in JSON Lines. */
export async function orderOf(
  { pool, project: { organizationId } }: ProjectFixture,
  format: 'ndjson' | 'csv' = 'ndjson',
  more: Partial<ExportOrder> = {},
): Promise<ExportOrder> {
  const extent = { scope: { organizationId }, format, includesBuckets: format === 'ndjson' };
  const begun = await beginExport(pool, extent, findPlan);
  return { ...extent, ...begun, includesUsage: true, pages: SMALL_PAGES, ...more };
}

export interface StreamOptions {
  /** Where it goes on. */
  cursor?: string;
  /** Records between two checkpoints. */
  most?: number;
  /** Default: the pool of the fixture. */
  db?: Database;
}

export function streamOf(
  { pool, secrets }: ProjectFixture,
  order: ExportOrder,
  { cursor, most, db = pool }: StreamOptions = {},
): AsyncGenerator<string> {
  const resumed = decodeExportCursor(order, cursor);
  const going = resumed ? { ...order, span: resumed.span } : order;
  const pages = walkExport(db, going, resumed?.place);
  return order.format === 'csv'
    ? toTable(pages, going, { isContinued: resumed !== undefined })
    : toLines(pages, going, { publicUrl: 'https://beats.example.com', secrets }, most);
}

/** All of it. `meanwhile` runs after each piece. */
export async function readAll(
  stream: AsyncGenerator<string>,
  meanwhile = async (): Promise<void> => undefined,
): Promise<string> {
  let text = '';
  for await (const piece of stream) {
    text += piece;
    await meanwhile();
  }
  return text;
}
