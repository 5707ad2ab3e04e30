// Signs of life of the operators that beat monitors, and the outages that they show (docs/contract/deadlines.md, "While no
// operator leads"). Each database with monitors has its own. Lock order: the row of the sign, then outages, which have no other
// writers; nothing that locks a live row waits for either.
import type { Outage } from '../../domain/monitor.ts';
import {
  type OperatorPart,
  type OperatorSigns,
  type PartedSigns,
  partName,
  SILENT_MS,
  signsOf,
} from '../../domain/operator-sign.ts';
import { NOW_MS } from '../postgres/moments.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { inTransaction, readNow } from '../postgres/transaction.ts';

/** The operator of an organization: no other organization's operator signs for it. */
export interface OperatorRef {
  organizationId: string;
  operatorId: string;
}

/** A clock that was set back by more takes the signs with it. */
const SET_BACK_MS = 3_000;

/**
 * A sign of life, which leaves these parts of its monitors out. The first one after a silence writes its outage, and the first
 * one with a part again that of the part; of two at once one does.
 */
export async function signOperator(
  db: Pick<Database, 'connect' | 'query'>,
  operator: OperatorRef,
  behind: readonly OperatorPart[] = [],
): Promise<Outage | undefined> {
  const { organizationId, operatorId } = operator;
  if (behind.length > 0) return await inTransaction(db, (tx) => signInOrder(tx, operator, behind));
  // Evaluated again on the newest row, where another one has just signed.
  const { rowCount } = await db.query({
    name: 'sign-operator',
    text: `update operator_signs set seen_ms = ${NOW_MS}
      where organization_id = $1 and operator_id = $2 and behind is null
        and ${NOW_MS} - seen_ms between ${-SET_BACK_MS} and ${SILENT_MS}`,
    values: [organizationId, operatorId],
  });
  return rowCount === 1 ? undefined : await inTransaction(db, (tx) => signInOrder(tx, operator, behind));
}

async function signInOrder(
  tx: Queryable,
  operator: OperatorRef,
  parts: readonly OperatorPart[],
): Promise<Outage | undefined> {
  if ((await insertOperator(tx, operator)) && parts.length === 0) return undefined;
  const keys = [operator.organizationId, operator.operatorId];
  const { rows } = await tx.query<{ seen_ms: number; behind: Record<string, number> | null }>(
    'select seen_ms, behind from operator_signs where organization_id = $1 and operator_id = $2 for update',
    keys,
  );
  // Read under the lock: another one may have signed while this transaction waited for it.
  const nowMs = await readNow(tx);
  const [{ seen_ms: seenMs, behind: before } = { seen_ms: nowMs, behind: null }] = rows;
  if (seenMs - nowMs > SET_BACK_MS) await bringBackOutages(tx, operator, nowMs);
  const outage = nowMs - seenMs > SILENT_MS ? { fromMs: seenMs, toMs: nowMs } : undefined;
  if (outage) {
    await tx.query(
      `insert into operator_outages (organization_id, operator_id, from_ms, to_ms) values ($1, $2, $3, $4)`,
      [...keys, outage.fromMs, outage.toMs],
    );
  }
  const behind = leftOut(parts, before ?? {}, Math.min(seenMs, nowMs));
  await insertPartOutages(tx, operator, { before: before ?? {}, behind, nowMs });
  const stored = behind.size === 0 ? null : JSON.stringify(Object.fromEntries(behind));
  await tx.query(
    'update operator_signs set seen_ms = $3, behind = $4 where organization_id = $1 and operator_id = $2',
    [...keys, nowMs, stored],
  );
  return outage;
}

/** Since when each part is left out. One of a project that was left out whole is so since then. */
function leftOut(
  parts: readonly OperatorPart[],
  before: Readonly<Record<string, number>>,
  seenMs: number,
): Map<string, number> {
  return new Map(
    parts.map((part) => {
      const sinceMs = before[partName(part)] ?? before[part.projectId] ?? seenMs;
      return [partName(part), Math.min(sinceMs, seenMs)];
    }),
  );
}

async function insertPartOutages(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
  known: { before: Readonly<Record<string, number>>; behind: ReadonlyMap<string, number>; nowMs: number },
): Promise<void> {
  const { before, behind, nowMs } = known;
  const ended = Object.entries(before).filter(
    ([part, sinceMs]) => !behind.has(part) && nowMs - sinceMs > SILENT_MS,
  );
  if (ended.length === 0) return;
  await tx.query(
    `insert into operator_part_outages (organization_id, operator_id, part, from_ms, to_ms)
     select $1, $2, part, from_ms, $5 from unnest($3::text[], $4::bigint[]) as ended (part, from_ms)`,
    [organizationId, operatorId, ended.map(([part]) => part), ended.map(([, sinceMs]) => sinceMs), nowMs],
  );
}

/** An outage up to a time at which the clock was wrong would put off deadlines until that time comes again. */
async function bringBackOutages(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
  nowMs: number,
): Promise<void> {
  const of = 'organization_id = $1 and operator_id = $2 and to_ms > $3';
  const values = [organizationId, operatorId, nowMs];
  for (const table of ['operator_outages', 'operator_part_outages']) {
    await tx.query(`delete from ${table} where ${of} and from_ms >= $3`, values);
    await tx.query(`update ${table} set to_ms = $3 where ${of}`, values);
  }
}

/** Makes an operator known, with a sign of this moment. False: it is known, and its sign stays. */
export async function insertOperator(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `insert into operator_signs (organization_id, operator_id, seen_ms) values ($1, $2, ${NOW_MS})
     on conflict do nothing`,
    [organizationId, operatorId],
  );
  return rowCount === 1;
}

/** The signs of some operators, by organization and id. */
export class KnownOperators {
  readonly #known: ReadonlyMap<string, PartedSigns>;

  constructor(known: ReadonlyMap<string, PartedSigns> = new Map()) {
    this.#known = known;
  }

  /** What counts for a monitor. One that is not known never gave a sign. */
  of(operator: OperatorRef, monitor: Required<OperatorPart>): OperatorSigns {
    const signs = this.#known.get(keyOf(operator));
    return signs ? signsOf(signs, monitor) : NEVER;
  }
}

const NEVER: OperatorSigns = { outages: [] };
const keyOf = ({ organizationId, operatorId }: OperatorRef) => `${organizationId} ${operatorId}`;

interface SignsRow {
  organization_id: string;
  operator_id: string;
  seen_ms: number;
  behind: Record<string, number> | null;
  outages: [fromMs: number, toMs: number][] | null;
  part_outages: [part: string, fromMs: number, toMs: number][] | null;
}

/**
 * The signs of these operators and their outages that ended after `sinceMs`, in one round trip. A sign and the outages that it
 * ends are read together.
 */
export async function readOperators(
  db: Queryable,
  operators: readonly OperatorRef[],
  sinceMs: number,
): Promise<KnownOperators> {
  const distinct = [...new Map(operators.map((operator) => [keyOf(operator), operator])).values()];
  if (distinct.length === 0) return new KnownOperators();
  const { rows } = await db.query<SignsRow>({
    name: 'read-operators',
    text: `select s.organization_id, s.operator_id, s.seen_ms, s.behind, (
        select jsonb_agg(jsonb_build_array(o.from_ms, o.to_ms) order by o.to_ms) from operator_outages o
        where o.organization_id = s.organization_id and o.operator_id = s.operator_id and o.to_ms > $3) as outages, (
        select jsonb_agg(jsonb_build_array(p.part, p.from_ms, p.to_ms) order by p.to_ms) from operator_part_outages p
        where p.organization_id = s.organization_id and p.operator_id = s.operator_id and p.to_ms > $3) as part_outages
      from operator_signs s
      where (s.organization_id, s.operator_id) in (select * from unnest($1::uuid[], $2::text[]))`,
    values: [
      distinct.map(({ organizationId }) => organizationId),
      distinct.map(({ operatorId }) => operatorId),
      sinceMs,
    ],
  });
  const known = rows.map((row): [string, PartedSigns] => [
    keyOf({ organizationId: row.organization_id, operatorId: row.operator_id }),
    toSigns(row),
  ]);
  return new KnownOperators(new Map(known));
}

function toSigns({ seen_ms, behind, outages, part_outages }: SignsRow): PartedSigns {
  const partOutages = new Map<string, Outage[]>();
  for (const [part, fromMs, toMs] of part_outages ?? []) {
    partOutages.set(part, [...(partOutages.get(part) ?? []), { fromMs, toMs }]);
  }
  return {
    signMs: seen_ms,
    outages: (outages ?? []).map(([fromMs, toMs]) => ({ fromMs, toMs })),
    behind: new Map(Object.entries(behind ?? {})),
    partOutages,
  };
}

/** Deletes outages that can no longer move a deadline. */
export async function deleteOperatorOutages(db: Queryable, beforeMs: number): Promise<void> {
  for (const table of ['operator_outages', 'operator_part_outages']) {
    await db.query(`delete from ${table} where to_ms < $1`, [beforeMs]);
  }
}
