// organizations: name, plan, state, and the counters of limits per organization. This file checks no caller's rights.
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

/** Creates the organization if none has that name, and returns the one that has it. Safe to run concurrently. */
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

/** Moves an organization to a plan, as `migrate` does with that of the installation. */
export async function updateOrganizationPlan(
  db: Queryable,
  { organizationId, plan }: { organizationId: string; plan: PlanId },
): Promise<void> {
  await db.query('update organizations set plan = $2 where organization_id = $1 and plan <> $2', [
    organizationId,
    plan,
  ]);
}
