// Projects. A credential sees its own project, a session those of its organization.
import { z } from 'zod';
import { createProject, renameProject } from '../../service/tenancy/projects.ts';
import { listProjects, type Project } from '../../store/tenancy/projects.ts';
import type { AuditedChange } from '../../telemetry/audit.ts';
import { requireProject } from '../auth/visible-resources.ts';
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
      onlyProjectId: principal.kind === 'credential' ? principal.projectId : undefined,
    });
    const { rows, nextCursor } = cutPage(found, query.limit, ({ projectId }) =>
      encodeCursor(LIST, [projectId]),
    );
    return { body: { items: rows.map(presentProject), nextCursor } };
  },

  async createProject({ input: { body }, caller, write }) {
    return await write(
      (tx) => createProject(tx, caller.organizationId, body.name),
      (project) => ({
        ...answer(project),
        audit: audited('create', project),
      }),
    );
  },

  async getProject({ input: { params }, caller, principal, db }) {
    return answer(await requireProject(db, { principal, caller }, params.projectId));
  },

  async updateProject({ input: { params, body, ifMatch }, caller, write }) {
    const { organizationId } = caller;
    const rename = { organizationId, projectId: params.projectId, name: body.name, version: ifMatch };
    return await write(
      (tx) => renameProject(tx, rename),
      (project) => ({
        ...answer(project),
        audit: project.version === ifMatch ? undefined : audited('rename', project),
      }),
    );
  },
};

function audited(action: 'create' | 'rename', { projectId }: Project): AuditedChange {
  return { action: `project.${action}`, object: { kind: 'project', id: projectId, projectId } };
}

function answer(project: Project) {
  return { version: project.version, body: presentProject(project) };
}
