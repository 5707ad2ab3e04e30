// Slots of the plan for what a call makes in the database of a jurisdiction: reserved in the default database before the
// call's own transaction, which uses them (docs/adr/0013).
import { newUuid } from '../../domain/id.ts';
import { leaseEnded, planLimitReached } from '../../domain/plan.ts';
import type { ProblemError } from '../../domain/problem.ts';
import {
  giveUpReservations,
  insertReservation,
  lockSlots,
  reportSlots,
  type Slots,
  useReservation,
} from '../../store/directory/reservations.ts';
import type { Databases, OwnHome, Place } from '../../store/postgres/databases.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { ahead } from './ahead.ts';
import { askHome, inHome } from './homes.ts';
import { type PlacedCall, placeOf } from './placed-call.ts';
import { SharedRun } from './shared-run.ts';

/** Uses what was reserved: last in the transaction that takes the slots. */
export type UseSlots = (tx: Queryable) => Promise<void>;

interface Wanted extends Slots {
  /** The fields that ask for them, where there are any. */
  paths?: Partial<Record<keyof Slots, string>>;
}

const USE_NOTHING: UseSlots = async () => undefined;

/**
 * Does work that takes slots. In the default database it counts them itself and `use` does nothing. For the database of a
 * jurisdiction they are reserved before, and given up where the work does not use them. Where there are none `use` throws
 * `plan_limit_reached`, as `ahead` says.
 */
export async function withSlots<Result>(
  call: PlacedCall,
  wantedNow: Wanted | (() => Promise<Wanted>),
  work: (use: UseSlots) => Promise<Result>,
): Promise<Result> {
  const place = placeOf(call);
  if (!place) return await work(USE_NOTHING);
  let reservationId: string | undefined;
  const requireReserved = await ahead(async () => {
    const wanted = typeof wantedNow === 'function' ? await wantedNow() : wantedNow;
    if (wanted.monitors + wanted.endpoints > 0) reservationId = await reserve(call, place, wanted);
  });
  let isUsed = false;
  try {
    return await work(async (tx) => {
      requireReserved();
      if (reservationId === undefined) return;
      if (!(await useReservation(tx, reservationId))) throw leaseEnded();
      isUsed = true;
    });
  } catch (error) {
    isUsed = false;
    throw error;
  } finally {
    // Where it was committed all the same this changes nothing. Where it fails a sweeper does it after a minute.
    const unused = isUsed || reservationId === undefined ? [] : [reservationId];
    if (unused.length > 0)
      await askPlace(place, (db) => giveUpReservations(db, unused)).catch(() => undefined);
  }
}

/** The id of the reservation. Throws `plan_limit_reached` and `temporarily_unavailable`. */
async function reserve(call: PlacedCall, place: Place, wanted: Wanted): Promise<string> {
  const [home] = call.homes;
  // While the default database is away nothing is made that takes a slot, and the refusal names that one.
  const reserveNow = () => inHome(home, (db) => tryToReserve(call, { db, place, wanted }));
  const first = await reserveNow();
  if (typeof first === 'string') return first;
  // What was deleted in a place since its last report is free.
  const { databases } = call.context;
  await Promise.allSettled(databases.places.map((one) => reportOf(databases, one).ask()));
  const second = await reserveNow();
  if (typeof second === 'string') return second;
  throw second;
}

/** Of each place of this process: calls that are refused at once share its reports. */
const reports = new WeakMap<OwnHome, SharedRun>();

function reportOf({ default: source }: Pick<Databases, 'default'>, place: OwnHome): SharedRun {
  const known = reports.get(place);
  if (known) return known;
  const shared = new SharedRun(async () => {
    await askPlace(place, () => reportSlots(source, place));
  });
  reports.set(place, shared);
  return shared;
}

/** As `askHome`: a place that is known to be away costs no time. */
const askPlace = (place: OwnHome, work: (db: Database) => Promise<void>) =>
  askHome({ ...place, db: place.pool }, work);

/** The id of the reservation, or why there is none. */
async function tryToReserve(
  { context: { findPlan }, caller: { organizationId } }: PlacedCall,
  { db, place, wanted }: { db: Database; place: Place; wanted: Wanted },
): Promise<string | ProblemError> {
  return await inTransaction(db, async (tx) => {
    const slots = await lockSlots(tx, organizationId);
    if (!slots) throw new Error(`There is no organization ${organizationId}.`);
    const plan = findPlan(slots.planId);
    const limits = [
      ['monitors', 'active_monitors', plan.activeMonitors],
      ['endpoints', 'callback_endpoints', plan.callbackEndpoints],
    ] as const;
    for (const [what, dimension, limit] of limits) {
      const [current, attempted] = [slots[what], slots[what] + wanted[what]];
      if (wanted[what] > 0 && attempted > limit)
        return planLimitReached(plan, { dimension, limit, current, attempted }, wanted.paths?.[what]);
    }
    const reservationId = newUuid();
    const { monitors, endpoints } = wanted;
    await insertReservation(tx, place, { reservationId, organizationId, monitors, endpoints });
    return reservationId;
  });
}
