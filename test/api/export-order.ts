// Exports below HTTP, as the route makes them: with small pages, and to be broken off and to go on between any two pieces.
import { decodeExportCursor } from '../../src/api/paging/export-cursor.ts';
import { toLines, toTable } from '../../src/api/present/present-export.ts';
import { JURISDICTIONS } from '../../src/domain/monitor.ts';
import { findPlan } from '../../src/domain/plan.ts';
import { type Homes, shareHomes } from '../../src/service/calls/homes.ts';
import { walkExport } from '../../src/service/tenancy/export.ts';
import { type ExportHome, openExportSources } from '../../src/service/tenancy/export-homes.ts';
import type { ExportOrder } from '../../src/service/tenancy/export-pages.ts';
import type { Pool } from '../../src/store/postgres/pool.ts';
import { Reachability } from '../../src/store/postgres/reachability.ts';
import type { ProjectFixture } from '../support/database-fixture.ts';

/** Each page of history is cut: by its bytes after one line or two, else by its lines. */
export const SMALL_PAGES = { items: 2, wholeMonitors: 2, lines: 3, bytes: 700, monitors: 2 };

/** An installation with one database. */
const homesOf = (pool: Pool): Homes =>
  shareHomes(
    { homes: [{ jurisdictions: JURISDICTIONS, pool, reachability: new Reachability(() => pool) }] },
    (one) => one,
  );

/** Of the fixture's organization; `more` replaces parts of it. Hours are in JSON Lines. */
export async function orderOf(
  { pool, project: { organizationId } }: Pick<ProjectFixture, 'pool' | 'project'>,
  format: 'ndjson' | 'csv' = 'ndjson',
  more: Partial<ExportOrder> = {},
): Promise<ExportOrder> {
  const includesBuckets = format === 'ndjson';
  const extent = { scope: { organizationId }, format, includesBuckets };
  const sources = await openExportSources(homesOf(pool), { organizationId, includesBuckets }, { findPlan });
  return { ...extent, ...sources, includesUsage: true, pages: SMALL_PAGES, ...more };
}

/** The only database of an order. */
export function homeOf({ monitorHomes: [home] }: ExportOrder): ExportHome {
  if (!home) throw new Error('The export reads no database.');
  return home;
}

/** The order with other moments of its only database. */
export const withHome = (order: ExportOrder, changed: Partial<ExportHome>): ExportOrder => ({
  ...order,
  monitorHomes: [{ ...homeOf(order), ...changed }],
});

export interface StreamOptions {
  /** Where it goes on. */
  cursor?: string;
  /** Records between two checkpoints. */
  most?: number;
  /** Of toLines and toTable. */
  quietMs?: number;
}

export function streamOf(
  { secrets }: Pick<ProjectFixture, 'secrets'>,
  order: ExportOrder,
  { cursor, most, quietMs }: StreamOptions = {},
): AsyncGenerator<string | Buffer> {
  const resumed = decodeExportCursor(order, cursor);
  const home = homeOf(order);
  const going = withHome(order, { span: resumed?.spans.get(home.name) ?? home.span });
  const pages = walkExport(going, resumed?.place);
  return order.format === 'csv'
    ? toTable(pages, going, { isContinued: resumed !== undefined, quietMs })
    : toLines(pages, going, { publicUrl: 'https://beats.example.com', secrets }, { most, quietMs });
}

/** All of it. `meanwhile` runs after each piece. */
export async function readAll(
  stream: AsyncGenerator<string | Buffer>,
  meanwhile = async (): Promise<void> => undefined,
): Promise<string> {
  let text = '';
  for await (const piece of stream) {
    text += piece.toString();
    await meanwhile();
  }
  return text;
}
