// How organizations stand: state, plan, and when the state ends (columns of organizations). It decides nothing:
// domain/billing.ts does.
import type { OrganizationStanding } from '../../domain/billing.ts';
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

/** The caller has locked the row. `isReconciled`: by an event of the billing provider. */
export async function updateStanding(
  tx: Queryable,
  organizationId: string,
  standing: OrganizationStanding,
  isReconciled: boolean,
): Promise<void> {
  const { serviceState, plan, graceEndsMs, dueMs } = standing;
  await tx.query(
    `update organizations set service_state = $2, plan = $3,
       grace_ends_at = ${fromMillis('$4')}, state_due_at = ${fromMillis('$5')},
       billing_reconciled_at = case when $6 then clock_timestamp() else billing_reconciled_at end
     where organization_id = $1`,
    [organizationId, serviceState, plan, graceEndsMs, dueMs, isReconciled],
  );
}

/** For an installation whose plans and states come from its values: no state ends by itself any more. */
export async function clearDueStates(db: Queryable): Promise<void> {
  await db.query('update organizations set state_due_at = null where state_due_at is not null');
}
