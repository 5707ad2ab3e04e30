// projects of an organization. Names are unique, ignoring case and extra spaces (docs/contract/tenancy.md).
import { UUID_PATTERN } from '../../domain/id.ts';
import { projectNameKey } from '../../domain/name-key.ts';
import { ProblemError } from '../../domain/problem.ts';
import { type Columns, column, rowReader, sql } from '../postgres/columns.ts';
import { codeOf, SQLSTATE } from '../postgres/database-error.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Queryable } from '../postgres/pool.ts';

export interface Project {
  projectId: string;
  organizationId: string;
  name: string;
  /** The newest first. */
  formerNames: string[];
  version: number;
  createdMs: number;
  updatedMs: number;
}

const PROJECT: Columns<Project> = {
  projectId: column.plain('project_id', 'uuid'),
  organizationId: column.plain('organization_id', 'uuid'),
  name: column.quoted('name', 'text'),
  formerNames: column.quoted('former_names', 'text[]'),
  version: column.plain('version', 'integer'),
  createdMs: column.clockMoment('created_at'),
  updatedMs: column.clockMoment('updated_at'),
};
const COLUMNS = sql.select(PROJECT, 'p');
const toProject = rowReader(PROJECT);

/** Throws `conflict` when the organization has a project of that name. */
export async function insertProject(
  db: Queryable,
  project: { projectId: string; organizationId: string; name: string },
): Promise<Project> {
  const { rows } = await refuseTakenName(
    db.query(
      `insert into projects as p (project_id, organization_id, name, name_key) values ($1, $2, $3, $4)
       ${returning()}`,
      [project.projectId, project.organizationId, project.name, projectNameKey(project.name)],
    ),
  );
  const [inserted] = await writtenOf(db, rows, project.projectId);
  if (!inserted) throw new Error('The insert of a project returned no row.');
  return inserted;
}

export async function hasProject(db: Queryable, projectId: string): Promise<boolean> {
  const { rowCount } = await db.query('select from projects where project_id = $1', [projectId]);
  return rowCount === 1;
}

/** An id takes precedence over a name that looks like it. */
export async function findProject(
  db: Queryable,
  organizationId: string,
  idOrName: string,
): Promise<Project | undefined> {
  const { rows } = await db.query(
    `select ${COLUMNS} from projects p
     where p.organization_id = $1 and (p.name_key = $2 or p.project_id = $3)
     order by p.project_id = $3 desc nulls last limit 1`,
    [organizationId, projectNameKey(idOrName), UUID_PATTERN.test(idOrName) ? idOrName : null],
  );
  return rows.map(toProject)[0];
}

/** Locks the row until the end of the transaction. */
export async function lockProject(
  tx: Queryable,
  organizationId: string,
  projectId: string,
): Promise<Project | undefined> {
  if (!UUID_PATTERN.test(projectId)) return undefined;
  const { rows } = await tx.query(
    `select ${COLUMNS} from projects p where p.organization_id = $1 and p.project_id = $2 for no key update`,
    [organizationId, projectId],
  );
  return rows.map(toProject)[0];
}

/** Renames it and raises its version. Throws `conflict` when the name is taken. */
export async function updateProjectName(
  tx: Queryable,
  project: Pick<Project, 'projectId' | 'name' | 'formerNames'>,
): Promise<Project> {
  const { rows } = await refuseTakenName(
    tx.query(
      `update projects p set name = $2, name_key = $3, former_names = $4, version = p.version + 1, updated_at = statement_timestamp()
       where p.project_id = $1 ${returning()}`,
      [project.projectId, project.name, projectNameKey(project.name), project.formerNames],
    ),
  );
  const [updated] = await writtenOf(tx, rows, project.projectId);
  if (!updated) throw new Error('The project was not locked by the caller.');
  return updated;
}

const returning = () => (isDistributed() ? '' : `returning ${COLUMNS}`);

/** What a statement has written: on Citus, where RETURNING takes no function of a time, it is read. */
async function writtenOf(db: Queryable, returned: readonly object[], projectId: string): Promise<Project[]> {
  if (!isDistributed()) return returned.map(toProject);
  const { rows } = await db.query(`select ${COLUMNS} from projects p where p.project_id = $1`, [projectId]);
  return rows.map(toProject);
}

/** Newest first. `onlyProjectId`: a credential sees only its own project. */
export async function listProjects(
  db: Queryable,
  organizationId: string,
  page: { limit: number; beforeId?: string; onlyProjectId?: string },
): Promise<Project[]> {
  // Ids are UUIDv7: their order is the order of creation, and the primary key's.
  const { rows } = await db.query(
    `select ${COLUMNS} from projects p
     where p.organization_id = $1 and ($2::uuid is null or p.project_id < $2)
       and ($3::uuid is null or p.project_id = $3)
     order by p.project_id desc limit $4`,
    [organizationId, page.beforeId, page.onlyProjectId, page.limit],
  );
  return rows.map(toProject);
}

async function refuseTakenName<T>(query: Promise<T>): Promise<T> {
  try {
    return await query;
  } catch (error) {
    if (codeOf(error) !== SQLSTATE.uniqueViolation) throw error;
    throw new ProblemError('conflict', {
      detail:
        'The organization has a project with that name, ignoring case and extra spaces: choose another name.',
      fieldErrors: [{ code: 'not_unique', message: 'Choose another name.', path: 'name' }],
      cause: error,
    });
  }
}
