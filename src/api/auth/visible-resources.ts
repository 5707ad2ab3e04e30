// Whether a caller may see what a path names, for calls that it may not make: 403 is only for what it may see and not
// do, so what it may not see is 404 first (docs/contract/calls.md). Calls that are admitted find out for themselves.
import { jurisdictionQuery } from '../../contract/fields/paging.ts';
import type { OperationSpec } from '../../contract/operations/operation.ts';
import type { PathParameter } from '../../contract/operations/operations.ts';
import type { Jurisdiction } from '../../domain/monitor.ts';
import { notFound } from '../../domain/problem.ts';
import { requireCallback } from '../../service/callbacks/callbacks.ts';
import type { Caller } from '../../service/calls/context.ts';
import type { Homes } from '../../service/calls/homes.ts';
import type { Queryable } from '../../store/postgres/pool.ts';
import { findProject, type Project } from '../../store/tenancy/projects.ts';
import { LOOKS, requireInOneOf } from '../call-databases.ts';
import type { Principal } from './principal.ts';

export interface Requester {
  principal: Principal;
  caller: Pick<Caller, 'organizationId' | 'projectId'>;
}

/** What a call names. */
export interface Named {
  params: unknown;
  /** As the caller wrote it. */
  jurisdiction: unknown;
}

/** Throws `not_found` for an id of nothing that the caller may see. */
type Requirement = (
  homes: Homes,
  requester: Requester,
  id: string,
  jurisdiction: Jurisdiction | undefined,
) => Promise<unknown>;

const REQUIREMENTS: Record<PathParameter, Requirement> = {
  monitorId: (homes, { caller }, id, jurisdiction) =>
    requireInOneOf(homes, LOOKS.monitorId(caller.projectId, id, jurisdiction), jurisdiction),
  endpointId: ([home], { caller: { projectId } }, endpointId) =>
    requireCallback(home.db, { projectId, endpointId }),
  incidentId: (homes, { caller }, id) => requireInOneOf(homes, LOOKS.incidentId(caller.projectId, id)),
  deliveryId: (homes, { caller }, id) => requireInOneOf(homes, LOOKS.deliveryId(caller.projectId, id)),
  // Who sees the monitor may read its drafts: no call on a draft is refused to him.
  draftId: async () => undefined,
  projectId: ([home], requester, id) => requireProject(home.db, requester, id),
  // All of credentials is the owner's: nobody else learns whether one exists.
  credentialId: async () => undefined,
  // It names no thing of a project: nobody but the operator signs.
  operatorId: async () => undefined,
};

/** Throws `not_found` unless the caller may see all that the path of the operation names, in the jurisdiction of the query. */
export async function requireVisible(
  homes: Homes,
  requester: Requester,
  { params: schema }: Pick<OperationSpec, 'params'>,
  { params, jurisdiction: stated }: Named,
): Promise<void> {
  if (!schema) return;
  const parsed = schema.safeParse(params);
  if (!parsed.success) throw notFound(); // nothing has such an id
  // Who may not call learns nothing of a malformed one either.
  const { data: jurisdiction } = jurisdictionQuery.jurisdiction.safeParse(stated);
  for (const [name, id] of Object.entries(parsed.data)) {
    await REQUIREMENTS[name as PathParameter](homes, requester, String(id), jurisdiction);
  }
}

/** A credential sees its own project, a session those of its organization. Throws `not_found`. */
export async function requireProject(
  db: Queryable,
  { principal, caller }: Requester,
  projectId: string,
): Promise<Project> {
  const own = principal.kind === 'credential' ? principal.projectId : undefined;
  const project = await findProject(db, caller.organizationId, projectId);
  // Only by id: a name may change, and the path names the resource.
  if (project?.projectId !== projectId.toLowerCase()) throw notFound();
  if (own !== undefined && project.projectId !== own) throw notFound();
  return project;
}
