// How organizations stand: state, plan, and when the state ends (columns of organizations). It decides nothing:
// domain/standing.ts does.
import { isServed } from '../../domain/plan.ts';
import type { OrganizationStanding } from '../../domain/standing.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { fromMillis } from '../postgres/moments.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface KnownStanding extends OrganizationStanding {
  /** When an event of the billing provider was last applied. */
  reconciledMs?: number;
}

const STANDING: Columns<KnownStanding> = {
  serviceState: column.plain('service_state', 'text'),
  plan: column.quoted('plan', 'text'),
  graceEndsMs: column.moment('grace_ends_at'),
  dueMs: column.moment('state_due_at'),
  isGraceGiven: column.plain('grace_is_given', 'boolean'),
  reconciledMs: column.clockMoment('billing_reconciled_at'),
};
const COLUMNS = sql.select(STANDING, 'o');
const toStanding = rowReader(STANDING);

/** Of these organizations, those that exist. */
export async function findOrganizationIds(db: Queryable, ids: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select organization_id as id from organizations where organization_id = any($1::uuid[])',
    [ids],
  );
  return rows.map(({ id }) => id);
}

export async function findStanding(
  db: Queryable,
  organizationId: string,
): Promise<KnownStanding | undefined> {
  const { rows } = await db.query(`select ${COLUMNS} from organizations o where o.organization_id = $1`, [
    organizationId,
  ]);
  return rows.map(toStanding)[0];
}

/** Locks the row until the end of the transaction. */
export async function lockStanding(
  tx: Queryable,
  organizationId: string,
): Promise<KnownStanding | undefined> {
  const { rows } = await tx.query(
    `select ${COLUMNS} from organizations o where o.organization_id = $1 for no key update`,
    [organizationId],
  );
  return rows.map(toStanding)[0];
}

/**
 * The caller has locked the row. `reconciledMs`, and `returnedMs` and `suspendedMs` (the end and the begin of a suspension):
 * undefined leaves them. All values are parameters: on a cluster no statement that writes a small table may call a clock.
 */
export async function updateStanding(
  tx: Queryable,
  organizationId: string,
  standing: KnownStanding & { returnedMs?: number; suspendedMs?: number },
): Promise<void> {
  const { serviceState, plan, graceEndsMs, dueMs, isGraceGiven, reconciledMs, returnedMs, suspendedMs } =
    standing;
  await tx.query(
    `update organizations set service_state = $2, plan = $3,
       grace_ends_at = ${fromMillis('$4')}, state_due_at = ${fromMillis('$5')},
       billing_reconciled_at = coalesce(${fromMillis('$6')}, billing_reconciled_at), grace_is_given = $7,
       returned_at = coalesce(${fromMillis('$8')}, returned_at),
       suspended_at = case when $9 then coalesce(${fromMillis('$10')}, suspended_at) end
     where organization_id = $1`,
    [
      organizationId,
      serviceState,
      plan,
      graceEndsMs,
      dueMs,
      reconciledMs,
      isGraceGiven,
      returnedMs,
      !isServed(serviceState),
      suspendedMs,
    ],
  );
}

/**
 * Lets a sweeper look now at the organizations whose plan is none of those that they pay for: it was set while plans came
 * from the values of the installation. In two statements: a cluster joins no table of the coordinator in an update.
 */
export async function makeOtherPlansDue(tx: Queryable, nowMs: number): Promise<void> {
  const { rows } = await tx.query<{ id: string }>(
    `select o.organization_id as id from organizations o
     join billing_subscriptions s using (organization_id)
     where s.plan is not null and s.status in ('trialing', 'active', 'past_due', 'unpaid', 'paused')
     group by o.organization_id, o.plan having not bool_or(s.plan = o.plan) order by o.organization_id`,
  );
  if (rows.length === 0) return;
  await tx.query(
    `update organizations set state_due_at = ${fromMillis('$2')} where organization_id = any($1::uuid[])`,
    [rows.map(({ id }) => id), nowMs],
  );
}
