// Operations on projects. A credential sees its own; sessions see those of their organization.
import { z } from 'zod';
import { formatEtag } from '../../contract/fields/headers.ts';
import type { Project as ProjectBody } from '../../contract/resources/project.ts';
import { notFound } from '../../domain/problem.ts';
import type { Answer } from '../../service/calls/write.ts';
import { createProject, renameProject } from '../../service/tenancy/projects.ts';
import { findProject, listProjects, type Project } from '../../store/tenancy/projects.ts';
import type { Principal } from '../auth/principal.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';

type ProjectOperations = 'listProjects' | 'createProject' | 'getProject' | 'updateProject';

const LIST = 'projects';
const position = z.tuple([z.uuid()]);

export const projectHandlers: Handlers<ProjectOperations> = {
  async listProjects({ input: { query }, caller, principal, context }) {
    const [beforeId] = decodeCursor(LIST, position, query.cursor) ?? [];
    const found = await listProjects(context.pool, caller.organizationId, {
      limit: query.limit + 1,
      beforeId,
      onlyProjectId: ownProjectId(principal),
    });
    const { rows, nextCursor } = cutPage(found, query.limit, ({ projectId }) =>
      encodeCursor(LIST, [projectId]),
    );
    return { status: 200, body: { items: rows.map(presentProject), nextCursor } };
  },

  async createProject({ input: { body }, caller, write }) {
    return await write(
      (tx) => createProject(tx, caller.organizationId, body.name),
      (project) => answer(201, project),
    );
  },

  async getProject({ input: { params }, caller, principal, context }) {
    const project = await findProject(context.pool, caller.organizationId, params.projectId);
    const own = ownProjectId(principal);
    // By id alone here: a name may change, and the path names the resource.
    if (project?.projectId !== params.projectId.toLowerCase()) throw notFound();
    if (own !== undefined && project.projectId !== own) throw notFound();
    return answer(200, project);
  },

  async updateProject({ input: { params, body }, caller, ifMatch, write }) {
    const { organizationId } = caller;
    const rename = { organizationId, projectId: params.projectId, name: body.name, version: ifMatch };
    return await write(
      (tx) => renameProject(tx, rename),
      (project) => answer(200, project),
    );
  },
};

function ownProjectId(principal: Principal): string | undefined {
  return principal.kind === 'credential' ? principal.projectId : undefined;
}

function answer(status: number, project: Project): Answer {
  return { status, headers: { etag: formatEtag('project', project.version) }, body: presentProject(project) };
}

function presentProject(project: Project): ProjectBody {
  return {
    projectId: project.projectId,
    name: project.name,
    createdAt: project.createdAt.toISOString(),
    updatedAt: project.updatedAt.toISOString(),
    version: project.version,
  };
}
