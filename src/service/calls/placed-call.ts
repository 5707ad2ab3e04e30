// A call that works in the database of a jurisdiction: which one, and the project that it needs there (docs/adr/0013).
import { ProblemError } from '../../domain/problem.ts';
import { bringRows } from '../../store/directory/copy-directory.ts';
import type { OwnHome } from '../../store/postgres/databases.ts';
import type { Database } from '../../store/postgres/pool.ts';
import { hasProject } from '../../store/tenancy/projects.ts';
import type { Caller, ServiceContext } from './context.ts';
import type { Homes } from './homes.ts';

/** A call, and the database in which it works. */
export interface PlacedCall {
  context: Pick<ServiceContext, 'databases' | 'findPlan'>;
  caller: Pick<Caller, 'organizationId' | 'projectId'>;
  db: Database;
  /** All databases, with the shares of the call. */
  homes: Homes;
}

/** Undefined: the call works in the default database. */
export function placeOf({ context, db, homes }: Omit<PlacedCall, 'caller'>): OwnHome | undefined {
  if (homes.length === 1) return undefined;
  const home = homes.find((one) => one.db === db);
  return context.databases.places.find(({ pool }) => pool === home?.pool);
}

/**
 * For a call that makes something in a project: a project that was made a moment ago is not copied yet. Throws
 * `temporarily_unavailable` where the copies of the place have not begun.
 */
export async function bringProject(call: PlacedCall): Promise<void> {
  const place = placeOf(call);
  const { organizationId, projectId } = call.caller;
  if (!place || (await hasProject(place.pool, projectId))) return;
  await bringRows(call.context.databases.default, place, [
    { table: 'organizations', keys: [{ organization_id: organizationId }] },
    { table: 'projects', keys: [{ project_id: projectId }] },
  ]);
  if (await hasProject(place.pool, projectId)) return;
  throw new ProblemError('temporarily_unavailable', {
    detail: `The database of the jurisdiction ${place.jurisdiction} is not ready yet: send the call again.`,
    retryAfterSeconds: 1,
    jurisdiction: place.jurisdiction,
  });
}
