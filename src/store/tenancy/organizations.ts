// organizations: name, plan, state and counters of what is limited per organization. No caller's rights are looked at here.
import type { PlanId, ServiceState } from '../../domain/problem.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface Organization {
  organizationId: string;
  name: string;
  plan: string;
  serviceState: ServiceState;
}

/** The columns of an Organization, of a table aliased `o`. */
const ORGANIZATION_COLUMNS = `o.organization_id as "organizationId", o.name, o.plan,
  o.service_state as "serviceState"`;

/** Makes the organization unless one of that name is there, and returns the one that is. Safe at the same time twice. */
export async function insertOrganization(
  db: Queryable,
  organization: { organizationId: string; name: string; plan: PlanId },
): Promise<Organization> {
  await db.query(
    `insert into organizations (organization_id, name, plan) values ($1, $2, $3) on conflict (name) do nothing`,
    [organization.organizationId, organization.name, organization.plan],
  );
  const found = await findOrganizationByName(db, organization.name);
  if (!found) throw new Error(`The organization ${organization.name} was removed while it was made.`);
  return found;
}

export async function findOrganizationByName(db: Queryable, name: string): Promise<Organization | undefined> {
  const { rows } = await db.query<Organization>(
    `select ${ORGANIZATION_COLUMNS} from organizations o where o.name = $1`,
    [name],
  );
  return rows[0];
}

/** Moves an organization to a plan: what `migrate` does with the installation's own. */
export async function updateOrganizationPlan(
  db: Queryable,
  organizationId: string,
  plan: PlanId,
): Promise<void> {
  await db.query('update organizations set plan = $2 where organization_id = $1 and plan <> $2', [
    organizationId,
    plan,
  ]);
}
