// The slots of an organization's plan (active monitors, callback endpoints) where jurisdictions have databases of their own.
// Each database counts what it has; the default one also has what the places had when they last told it, and what is
// reserved for them (docs/adr/0013).
import type { Place } from '../postgres/databases.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction } from '../postgres/transaction.ts';
import { lockCopy } from './whose-place.ts';

export interface Slots {
  monitors: number;
  endpoints: number;
}

export interface Reservation extends Slots {
  reservationId: string;
  organizationId: string;
}

export interface OrganizationSlots extends Slots {
  planId: string;
}

/** What all databases have, and what is reserved. Locks the organization's row until the end of the transaction. */
export async function lockSlots(
  tx: Queryable,
  organizationId: string,
): Promise<OrganizationSlots | undefined> {
  const { rows } = await tx.query<OrganizationSlots>(
    `select plan as "planId", active_monitors + monitors_elsewhere as monitors,
       callback_endpoints + endpoints_elsewhere as endpoints
     from organizations where organization_id = $1 for no key update`,
    [organizationId],
  );
  return rows[0];
}

/** Reserves slots in the default database. The caller has locked the organization's row and compared it with the plan. */
export async function insertReservation(
  tx: Queryable,
  { jurisdiction }: Pick<Place, 'jurisdiction'>,
  { reservationId, organizationId, monitors, endpoints }: Reservation,
): Promise<void> {
  await tx.query(
    `insert into slot_reservations (reservation_id, organization_id, jurisdiction, monitors, endpoints)
     values ($1, $2, $3, $4, $5)`,
    [reservationId, organizationId, jurisdiction, monitors, endpoints],
  );
  await tx.query(
    `update organizations set monitors_elsewhere = monitors_elsewhere + $2, endpoints_elsewhere = endpoints_elsewhere + $3
     where organization_id = $1`,
    [organizationId, monitors, endpoints],
  );
}

/**
 * Uses a reservation, in the place and in the transaction that takes its slots. False: it came so late that the reservation is
 * given up.
 */
export async function useReservation(tx: Queryable, reservationId: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    'insert into used_reservations (reservation_id) values ($1) on conflict do nothing',
    [reservationId],
  );
  return rowCount === 1;
}

/** A call that has reserved slots uses them within this time, or never. */
const RESERVED_FOR = `interval '1 minute'`;

/**
 * Tells the default database what the place has. Reservations that are used are counted by then, and those that were never
 * used end first: no call can use them any more. May die after each statement, run twice, and run in two processes at once.
 */
export async function reportSlots(source: Database, place: Place): Promise<void> {
  await endReservations(source, place);
  await tellAfterRestore(source, place);
  if (!(await hasNews(place))) return;
  const report = await readReport(place);
  const isNewest = await inTransaction(source, async (tx) => {
    const { rowCount } = await tx.query(
      'update directory_places set reported = $2 where jurisdiction = $1 and reported < $2',
      [place.jurisdiction, report.number],
    );
    if (rowCount === 1) await writeReport(tx, place, report);
    return rowCount === 1;
  });
  // A later one was here: it has what this one has.
  if (isNewest) await recordReport(place, report);
}

/** Far more reports than are made before one of them ends. */
const REPORTS_APART = 1_000_000;

/**
 * Lets all counts and reservations of a place be told anew, in reports that are later than all before. `reported`: the number
 * that the default database has. The caller has locked the copy.
 */
export async function tellAnew(place: Queryable, reported: number): Promise<void> {
  await place.query('update organizations set monitors_told = null, endpoints_told = null, told_by = 0');
  await place.query('update used_reservations set is_reported = false');
  await place.query(`update directory_copy set reported = greatest(reported, $1) + ${REPORTS_APART}`, [
    reported,
  ]);
}

/**
 * A report gets its number in the place first, and is noted there last: so a place with a lower number than the default
 * database was restored, and so was a default database with a lower one than was noted. Then it has counts of another time.
 */
async function tellAfterRestore(source: Queryable, place: Place): Promise<void> {
  const noted = await place.pool.query<{ number: number }>(
    'select coalesce(max(told_by), 0) as number from organizations',
  );
  const told = await source.query<{ number: number }>(
    'select reported as number from directory_places where jurisdiction = $1',
    [place.jurisdiction],
  );
  const given = await place.pool.query<{ number: number }>('select reported as number from directory_copy');
  const reported = told.rows[0]?.number;
  if (reported === undefined) return;
  const isTold = (noted.rows[0]?.number ?? 0) <= reported && reported <= (given.rows[0]?.number ?? reported);
  if (isTold) return;
  await inTransaction(place.pool, async (tx) => {
    await lockCopy(tx);
    await tellAnew(tx, reported);
  });
}

/** Notes what the default database has been told. One that stood still does not undo what a later report has noted. */
async function recordReport({ pool }: Place, { number, counts, reservations }: Report): Promise<void> {
  await inTransaction(pool, async (tx) => {
    await lockCopy(tx);
    await tx.query(
      `update organizations o set monitors_told = v.monitors, endpoints_told = v.endpoints, told_by = $4
       from unnest($1::uuid[], $2::integer[], $3::integer[]) as v (organization_id, monitors, endpoints)
       where o.organization_id = v.organization_id and o.told_by < $4`,
      [...columnsOf(counts), number],
    );
    await tx.query(
      'update used_reservations set is_reported = true where not is_reported and reservation_id = any($1::uuid[])',
      [reservations],
    );
  });
}

/**
 * Gives reservations up, unless they are used: no call can use them from then on. The next report ends them. Of several at
 * once the caller has locked the copy.
 */
export async function giveUpReservations(place: Queryable, ids: readonly string[]): Promise<void> {
  await place.query(
    `insert into used_reservations (reservation_id) select * from unnest($1::uuid[])
     on conflict (reservation_id) do update set is_reported = false`,
    [ids],
  );
}

/** Takes what is reserved for long from the calls that have reserved it. */
async function endReservations(source: Queryable, { jurisdiction, pool }: Place): Promise<void> {
  const { rows } = await source.query<{ id: string }>(
    `select reservation_id as id from slot_reservations
     where jurisdiction = $1 and reserved_at < clock_timestamp() - ${RESERVED_FOR}`,
    [jurisdiction],
  );
  if (rows.length === 0) return;
  await inTransaction(pool, async (tx) => {
    await lockCopy(tx);
    await giveUpReservations(
      tx,
      rows.map(({ id }) => id),
    );
  });
}

const IS_NEWS = '(active_monitors, callback_endpoints) is distinct from (monitors_told, endpoints_told)';

async function hasNews({ pool }: Place): Promise<boolean> {
  const { rows } = await pool.query<{ news: boolean }>(
    `select exists (select from organizations where ${IS_NEWS})
       or exists (select from used_reservations where not is_reported) as news`,
  );
  return rows[0]?.news ?? false;
}

type Count = Slots & { organizationId: string };

interface Report {
  /** Rises with each report: what a later one has is not older. */
  number: number;
  /** Of organizations whose counts the default database does not have. */
  counts: Count[];
  /** Those that the counts contain, and that the default database still has. */
  reservations: string[];
}

/**
 * After the moment of every report with a lower number. What is told is unknown until this report is noted: a later one tells
 * it again. Counts are read after the reservations: they contain at least those.
 */
async function readReport({ pool }: Place): Promise<Report> {
  return await inTransaction(pool, async (tx) => {
    const { rows: numbers } = await tx.query<{ number: number }>(
      'update directory_copy set reported = reported + 1 returning reported as number',
    );
    const { rows: used } = await tx.query<{ id: string }>(
      'select reservation_id as id from used_reservations where not is_reported',
    );
    const { rows: counts } = await tx.query<Count>(
      `update organizations set monitors_told = null, endpoints_told = null where ${IS_NEWS}
       returning organization_id as "organizationId", active_monitors as monitors, callback_endpoints as endpoints`,
    );
    return { number: numbers[0]?.number ?? 0, counts, reservations: used.map(({ id }) => id) };
  });
}

async function writeReport(
  tx: Queryable,
  { jurisdiction }: Place,
  { counts, reservations }: Report,
): Promise<void> {
  const { rows } = await tx.query<{ id: string }>(
    'select distinct organization_id as id from slot_reservations where reservation_id = any($1::uuid[])',
    [reservations],
  );
  const changed = [...rows.map(({ id }) => id), ...counts.map(({ organizationId }) => organizationId)];
  // First: what others reserve meanwhile is in the sums below.
  await tx.query(
    'select from organizations where organization_id = any($1::uuid[]) order by organization_id for no key update',
    [changed],
  );
  await tx.query(
    `insert into place_slots (organization_id, jurisdiction, monitors, endpoints)
     select v.organization_id, $4, v.monitors, v.endpoints
     from unnest($1::uuid[], $2::integer[], $3::integer[]) as v (organization_id, monitors, endpoints)
     on conflict (organization_id, jurisdiction) do update set monitors = excluded.monitors, endpoints = excluded.endpoints`,
    [...columnsOf(counts), jurisdiction],
  );
  await tx.query('delete from slot_reservations where reservation_id = any($1::uuid[])', [reservations]);
  await tx.query(SUM_ELSEWHERE, [changed]);
}

const sumOf = (what: keyof Slots) => `(
    select coalesce(sum(s.${what}), 0) from (
      select p.organization_id, p.${what} from place_slots p
      union all select r.organization_id, r.${what} from slot_reservations r) s
    where s.organization_id = o.organization_id)`;

const SUM_ELSEWHERE = `update organizations o
  set monitors_elsewhere = ${sumOf('monitors')}, endpoints_elsewhere = ${sumOf('endpoints')}
  where o.organization_id = any($1::uuid[])`;

function columnsOf(counts: readonly Count[]): unknown[] {
  return [
    counts.map(({ organizationId }) => organizationId),
    counts.map(({ monitors }) => monitors),
    counts.map(({ endpoints }) => endpoints),
  ];
}
