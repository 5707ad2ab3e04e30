// Monitors that were made in the default database before their jurisdiction had one of its own (docs/adr/0013).
import type { Jurisdiction } from '../../domain/monitor.ts';
import type { Queryable } from '../postgres/pool.ts';

/** Those of `jurisdictions` that have a monitor in this database. Reads all monitors where there is none: not for every call. */
export async function findLeftMonitors(
  db: Queryable,
  jurisdictions: readonly Jurisdiction[],
): Promise<Jurisdiction[]> {
  const { rows } = await db.query<{ name: Jurisdiction }>(
    `select w.name from unnest($1::text[]) as w (name)
     where exists (select from monitors m where m.jurisdiction = w.name)`,
    [jurisdictions],
  );
  return rows.map(({ name }) => name);
}
