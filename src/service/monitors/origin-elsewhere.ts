// An origin where an installation has several databases. Each of them keeps it unique among its own monitors; before a call
// gives it to a monitor the others are asked here. Not those that are away: they hold up no monitor of another one. What two
// databases have then, the operator reports (docs/contract/kubernetes.md, "Orphans").
import type { MonitorOrigin } from '../../domain/origin.ts';
import { findOriginHolder } from '../../store/monitors/monitor-origins.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import type { Caller } from '../calls/context.ts';
import { askHome, type Homes, withMonitors } from '../calls/homes.ts';
import { findMonitorRef } from './monitor-access.ts';
import { claimOrigin, type OriginChange, releaseOrigin } from './monitor-origin.ts';

/** A call that gives an origin to a monitor in the database `db`. */
export interface OriginCall {
  caller: Caller;
  db: Database;
  homes: Homes;
}

/** For a new monitor: as `claimOrigin`, in the other databases. Throws `origin_taken`. */
export async function claimOriginElsewhere(call: OriginCall, origin: MonitorOrigin): Promise<void> {
  await inOthers(call, origin, (tx) => claimOrigin(tx, call.caller, { origin }));
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
