// An origin where an installation has several databases. Each of them keeps it unique among its own monitors; before a call
// gives it to a monitor the others are asked here. Not those that are away: they hold up no monitor of another one. What two
// databases have then, the operator reports (docs/contract/kubernetes.md, "Orphans").
import type { MonitorOrigin } from '../../domain/origin.ts';
import { findOriginHolder } from '../../store/monitors/monitor-origins.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { ahead } from '../calls/ahead.ts';
import type { Caller } from '../calls/context.ts';
import { askHome, type Homes, withMonitors } from '../calls/homes.ts';
import { findMonitorRef } from './monitor-access.ts';
import { isHeldByOver, type OriginChange, releaseOrigin, releaseOver } from './monitor-origin.ts';

/** A call that gives an origin to a monitor in the database `db`. */
export interface OriginCall {
  caller: Caller;
  db: Database;
  homes: Homes;
}

/**
 * Makes a monitor with the origin. First it asks the other databases; `requireFree` throws `origin_taken`, inside the write as
 * `ahead` says. A monitor there that is archived and can't be restored any more loses the origin after the new one is made: a
 * creation that is refused takes nothing. Where that fails, or the process dies before it, the creation stands, and both have
 * the origin until a call sets it or a sweeper deletes the archived one.
 */
export async function withOriginElsewhere<Result>(
  call: OriginCall,
  origin: MonitorOrigin | undefined,
  create: (requireFree: () => void) => Promise<Result>,
): Promise<Result> {
  if (call.homes.length === 1 || origin === undefined) return await create(() => undefined);
  let isHeld = false;
  const requireFree = await ahead(() =>
    inOthers(call, origin, async (tx) => {
      if (await isHeldByOver(tx, call.caller, origin)) isHeld = true;
    }),
  );
  const created = await create(requireFree);
  // An error here would deny what is committed.
  if (isHeld)
    await inOthers(call, origin, (tx) => releaseOver(tx, call.caller, origin)).catch(() => undefined);
  return created;
}

/**
 * For a monitor that exists: takes the origin from the one that has it in another database. A call that dies after it leaves an
 * origin that no monitor has, and is repeated. Throws `not_found` and `conflict`.
 */
export async function takeOriginElsewhere(call: OriginCall, { name, origin }: OriginChange): Promise<void> {
  if (call.homes.length === 1 || origin === undefined) return;
  await findMonitorRef(call.db, name);
  await inOthers(call, origin, (tx) => releaseOrigin(tx, call.caller, origin));
}

/** Works where a monitor has the origin. */
async function inOthers(
  { caller, db: own, homes }: OriginCall,
  origin: MonitorOrigin,
  work: (tx: Queryable) => Promise<void>,
): Promise<void> {
  const others = withMonitors(homes).filter(({ db }) => db !== own);
  const workIn = async (db: Database) => {
    if (await findOriginHolder(db, caller.projectId, origin)) await inTransaction(db, work);
  };
  await Promise.all(others.map(async (home) => await askHome(home, workIn)));
}
