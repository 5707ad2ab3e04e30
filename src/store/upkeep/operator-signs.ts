// Signs of life of the operators that beat monitors, and the outages that they show (docs/contract/deadlines.md, "While no
// operator leads"). Each database with monitors has its own. Lock order: the row of the sign, then outages, which have no other
// writers; nothing that locks a live row waits for either.
import type { Outage } from '../../domain/monitor.ts';
import { type OperatorSigns, SILENT_MS } from '../../domain/operator-sign.ts';
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

/** A sign of life. The first one after a silence writes its outage; of two at once one does. */
export async function signOperator(
  db: Pick<Database, 'connect' | 'query'>,
  operator: OperatorRef,
): Promise<Outage | undefined> {
  const { organizationId, operatorId } = operator;
  // Evaluated again on the newest row, where another one has just signed.
  const { rowCount } = await db.query({
    name: 'sign-operator',
    text: `update operator_signs set seen_ms = ${NOW_MS}
      where organization_id = $1 and operator_id = $2
        and ${NOW_MS} - seen_ms between ${-SET_BACK_MS} and ${SILENT_MS}`,
    values: [organizationId, operatorId],
  });
  return rowCount === 1 ? undefined : await inTransaction(db, (tx) => endSilence(tx, operator));
}

async function endSilence(tx: Queryable, operator: OperatorRef): Promise<Outage | undefined> {
  if (await insertOperator(tx, operator)) return undefined;
  const keys = [operator.organizationId, operator.operatorId];
  const { rows } = await tx.query<{ seen_ms: number }>(
    'select seen_ms from operator_signs where organization_id = $1 and operator_id = $2 for update',
    keys,
  );
  // Read under the lock: another one may have signed while this transaction waited for it.
  const nowMs = await readNow(tx);
  const seenMs = rows[0]?.seen_ms ?? nowMs;
  if (seenMs - nowMs > SET_BACK_MS) await bringBackOutages(tx, operator, nowMs);
  const outage = nowMs - seenMs > SILENT_MS ? { fromMs: seenMs, toMs: nowMs } : undefined;
  if (outage) {
    await tx.query(
      `insert into operator_outages (organization_id, operator_id, from_ms, to_ms) values ($1, $2, $3, $4)`,
      [...keys, outage.fromMs, outage.toMs],
    );
  }
  await tx.query('update operator_signs set seen_ms = $3 where organization_id = $1 and operator_id = $2', [
    ...keys,
    nowMs,
  ]);
  return outage;
}

/** An outage up to a time at which the clock was wrong would put off deadlines until that time comes again. */
async function bringBackOutages(
  tx: Queryable,
  { organizationId, operatorId }: OperatorRef,
  nowMs: number,
): Promise<void> {
  const of = 'organization_id = $1 and operator_id = $2 and to_ms > $3';
  const values = [organizationId, operatorId, nowMs];
  await tx.query(`delete from operator_outages where ${of} and from_ms >= $3`, values);
  await tx.query(`update operator_outages set to_ms = $3 where ${of}`, values);
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
  readonly #known: ReadonlyMap<string, OperatorSigns>;

  constructor(known: ReadonlyMap<string, OperatorSigns> = new Map()) {
    this.#known = known;
  }

  /** One that is not known never gave a sign. */
  of(operator: OperatorRef): OperatorSigns {
    return this.#known.get(keyOf(operator)) ?? NEVER;
  }
}

const NEVER: OperatorSigns = { outages: [] };
const keyOf = ({ organizationId, operatorId }: OperatorRef) => `${organizationId} ${operatorId}`;

/**
 * The signs of these operators and their outages that ended after `sinceMs`, in one round trip. A sign and the outage that it
 * ends are read together.
 */
export async function readOperators(
  db: Queryable,
  operators: readonly OperatorRef[],
  sinceMs: number,
): Promise<KnownOperators> {
  const distinct = [...new Map(operators.map((operator) => [keyOf(operator), operator])).values()];
  if (distinct.length === 0) return new KnownOperators();
  const { rows } = await db.query<{
    organization_id: string;
    operator_id: string;
    seen_ms: number;
    outages: [number, number][] | null;
  }>({
    name: 'read-operators',
    text: `select s.organization_id, s.operator_id, s.seen_ms, (
        select jsonb_agg(jsonb_build_array(o.from_ms, o.to_ms) order by o.to_ms) from operator_outages o
        where o.organization_id = s.organization_id and o.operator_id = s.operator_id and o.to_ms > $3) as outages
      from operator_signs s
      where (s.organization_id, s.operator_id) in (select * from unnest($1::uuid[], $2::text[]))`,
    values: [
      distinct.map(({ organizationId }) => organizationId),
      distinct.map(({ operatorId }) => operatorId),
      sinceMs,
    ],
  });
  const known = rows.map(({ organization_id, operator_id, seen_ms, outages }): [string, OperatorSigns] => [
    keyOf({ organizationId: organization_id, operatorId: operator_id }),
    { signMs: seen_ms, outages: (outages ?? []).map(([fromMs, toMs]) => ({ fromMs, toMs })) },
  ]);
  return new KnownOperators(new Map(known));
}

/** Deletes outages that can no longer move a deadline. */
export async function deleteOperatorOutages(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from operator_outages where to_ms < $1', [beforeMs]);
}
