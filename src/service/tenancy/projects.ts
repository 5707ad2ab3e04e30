// Projects: create and rename (docs/contract/tenancy.md). A project that the caller may not see is `not_found`.
import { MAX_FORMER_NAMES } from '../../domain/defaults.ts';
import { newUuid } from '../../domain/id.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import { notFound } from '../../domain/problem.ts';
import type { Connection } from '../../store/postgres/pool.ts';
import { insertProject, lockProject, type Project, updateProjectName } from '../../store/tenancy/projects.ts';
import { requireVersion } from '../calls/write.ts';

/** Throws `conflict` when the organization has a project of that name. */
export async function createProject(tx: Connection, organizationId: string, name: string): Promise<Project> {
  return await insertProject(tx, { projectId: newUuid(), organizationId, name });
}

export interface Rename {
  organizationId: string;
  projectId: string;
  name: string;
  /** The version that the caller has read. */
  version: number;
}

/** The same name is no change. Throws `not_found`, `precondition_failed`, `conflict`. */
export async function renameProject(tx: Connection, rename: Rename): Promise<Project> {
  const project = await lockProject(tx, rename.organizationId, rename.projectId);
  if (!project) throw notFound();
  requireVersion(project, rename.version);
  if (project.name === rename.name) return project;
  const { projectId } = project;
  return await updateProjectName(tx, {
    projectId,
    name: rename.name,
    formerNames: formerNamesOf(project, rename.name),
  });
}

/** By them the operator finds the project of namespaces that name it as it was. */
function formerNamesOf({ name, formerNames }: Project, next: string): string[] {
  const keys = new Set([projectNameKey(next)]);
  const isNew = (one: string) => !keys.has(projectNameKey(one)) && keys.add(projectNameKey(one));
  return [name, ...formerNames].filter(isNew).slice(0, MAX_FORMER_NAMES);
}
