// Slots of the plan for what a call makes in the database of a jurisdiction: reserved in the default database before the
// call's own transaction, which uses them (docs/adr/0013).
import { newUuid } from '../../domain/id.ts';
import { planLimitReached } from '../../domain/plan.ts';
import { ProblemError } from '../../domain/problem.ts';
import {
  giveUpReservations,
  insertReservation,
  lockSlots,
  reportSlots,
  type Slots,
  useReservation,
} from '../../store/directory/reservations.ts';
import type { OwnHome, Place } from '../../store/postgres/databases.ts';
import type { Database, Queryable } from '../../store/postgres/pool.ts';
import { inTransaction } from '../../store/postgres/transaction.ts';
import { askHome, inHome } from './homes.ts';
import { type PlacedCall, placeOf } from './placed-call.ts';

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
 * `plan_limit_reached`, and not sooner: the work may be a call that another replica has done, and then it only tells the answer.
 */
export async function withSlots<Result>(
  call: PlacedCall,
  wantedNow: Wanted | (() => Promise<Wanted>),
  work: (use: UseSlots) => Promise<Result>,
): Promise<Result> {
  const place = placeOf(call);
  if (!place) return await work(USE_NOTHING);
  const reserved = await reserveWanted(call, place, wantedNow);
  if ('refusal' in reserved) {
    return await work(async () => {
      throw reserved.refusal;
    });
  }
  const { reservationId } = reserved;
  if (reservationId === undefined) return await work(USE_NOTHING);
  let isUsed = false;
  try {
    return await work(async (tx) => {
      if (!(await useReservation(tx, reservationId)))
        throw new ProblemError('temporarily_unavailable', {
          detail: 'The call took too long: send it again.',
        });
      isUsed = true;
    });
  } catch (error) {
    isUsed = false;
    throw error;
  } finally {
    // Where it was committed all the same this changes nothing. Where it fails a sweeper does it after a minute.
    if (!isUsed)
      await askPlace(place, (db) => giveUpReservations(db, [reservationId])).catch(() => undefined);
  }
}

interface Reserved {
  /** Undefined: nothing is wanted. */
  reservationId?: string;
}

/** `refusal`: why nothing is reserved. Throws `temporarily_unavailable`. */
async function reserveWanted(
  call: PlacedCall,
  place: OwnHome,
  wantedNow: Wanted | (() => Promise<Wanted>),
): Promise<Reserved | { refusal: ProblemError }> {
  try {
    const wanted = typeof wantedNow === 'function' ? await wantedNow() : wantedNow;
    if (wanted.monitors + wanted.endpoints === 0) return {};
    const reserved = await reserve(call, place, wanted);
    return typeof reserved === 'string' ? { reservationId: reserved } : { refusal: reserved };
  } catch (error) {
    // What the call names is gone: the work says so, or has its answer of before.
    if (error instanceof ProblemError && !error.retryable) return { refusal: error };
    throw error;
  }
}

/** The id of the reservation, or why there is none. */
async function reserve(call: PlacedCall, place: Place, wanted: Wanted): Promise<string | ProblemError> {
  const [home] = call.homes;
  // While the default database is away nothing is made that takes a slot, and the refusal names that one.
  const reserveNow = () => inHome(home, (db) => tryToReserve(call, { db, place, wanted }));
  const first = await reserveNow();
  if (typeof first === 'string') return first;
  // What was deleted in a place since its last report is free.
  const { places, default: source } = call.context.databases;
  await Promise.allSettled(places.map((one) => askPlace(one, () => reportSlots(source, one))));
  return await reserveNow();
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
