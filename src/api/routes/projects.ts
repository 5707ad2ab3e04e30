// Projects. A credential sees its own project, a session those of its organization.
import { z } from 'zod';
import { notFound } from '../../domain/problem.ts';
import { createProject, renameProject } from '../../service/tenancy/projects.ts';
import { findProject, listProjects, type Project } from '../../store/tenancy/projects.ts';
import type { Principal } from '../auth/principal.ts';
import type { Handlers } from '../operation.ts';
import { cutPage, decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { presentProject } from '../present/present-tenancy.ts';

type ProjectOperations = 'listProjects' | 'createProject' | 'getProject' | 'updateProject';

const LIST = 'projects';
const position = z.tuple([z.uuid()]);

export const projectHandlers: Handlers<ProjectOperations> = {
  async listProjects({ input: { query }, caller, principal, db }) {
    const [beforeId] = decodeCursor(LIST, position, query.cursor) ?? [];
    const found = await listProjects(db, caller.organizationId, {
      limit: query.limit + 1,
      beforeId,
      onlyProjectId: ownProjectId(principal),
    });
    const { rows, nextCursor } = cutPage(found, query.limit, ({ projectId }) =>
      encodeCursor(LIST, [projectId]),
    );
    return { body: { items: rows.map(presentProject), nextCursor } };
  },

  async createProject({ input: { body }, caller, write }) {
    return await write((tx) => createProject(tx, caller.organizationId, body.name), answer);
  },

  async getProject({ input: { params }, caller, principal, db }) {
    const project = await findProject(db, caller.organizationId, params.projectId);
    const own = ownProjectId(principal);
    // Only by id: a name may change, and the path names the resource.
    if (project?.projectId !== params.projectId.toLowerCase()) throw notFound();
    if (own !== undefined && project.projectId !== own) throw notFound();
    return answer(project);
  },

  async updateProject({ input: { params, body, ifMatch }, caller, write }) {
    const { organizationId } = caller;
    const rename = { organizationId, projectId: params.projectId, name: body.name, version: ifMatch };
    return await write((tx) => renameProject(tx, rename), answer);
  },
};

function ownProjectId(principal: Principal): string | undefined {
  return principal.kind === 'credential' ? principal.projectId : undefined;
}

function answer(project: Project) {
  return { version: project.version, body: presentProject(project) };
}
