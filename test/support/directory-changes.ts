// Random changes of the directory by SQL, in transactions that commit at once, late or never. Each row that is written has
// a mark in one of its columns, and the marks of a row rise in the order of its commits.
import type { Connection, Pool } from '../../src/store/postgres/pool.ts';

const uuid = (kind: number, index: number) => `00000000-0000-4000-8000-0000000${kind}000${index}`;
const ORGANIZATIONS = [0, 1].map((index) => uuid(1, index));
const PROJECTS = [0, 1, 2].map((index) => uuid(2, index));
const ENDPOINTS = ['cb_a', 'cb_b', 'cb_c'];
const ALIASES = ['x', 'y', null];

/** What one change does, from three small numbers. */
export interface Change {
  kind: keyof typeof CHANGES;
  row: number;
  other: number;
}

const of = <T>(list: readonly T[], index: number): T => list[index % list.length] as T;

/** Each takes the mark as $1. */
const CHANGES = {
  organization: ({ row, other }: Change) => [
    `insert into organizations (organization_id, name, created_at) values ($2, $3, to_timestamp($1::integer))
     on conflict (organization_id) do update set name = excluded.name, created_at = excluded.created_at`,
    [of(ORGANIZATIONS, row), `name-${other % 2}`],
  ],
  noOrganization: ({ row }: Change) => [
    'delete from organizations where organization_id = $2 and $1::integer > 0',
    [of(ORGANIZATIONS, row)],
  ],
  project: ({ row, other }: Change) => [
    `insert into projects (project_id, organization_id, name, name_key, version) values ($2, $3, $4, $4, $1)
     on conflict (project_id) do update
       set name = excluded.name, name_key = excluded.name_key, version = excluded.version`,
    [of(PROJECTS, row), of(ORGANIZATIONS, row), `name-${other % 2}`],
  ],
  noProject: ({ row }: Change) => [
    'delete from projects where project_id = $2 and $1::integer > 0',
    [of(PROJECTS, row)],
  ],
  endpoint: ({ row, other }: Change) => [
    `insert into callback_endpoints (project_id, endpoint_id, alias, kind, generation) values ($2, $3, $4, 'webhook', $1)
     on conflict (project_id, endpoint_id) do update set alias = excluded.alias, generation = excluded.generation`,
    [of(PROJECTS, 0), of(ENDPOINTS, row), of(ALIASES, other)],
  ],
  noEndpoint: ({ row }: Change) => [
    'delete from callback_endpoints where endpoint_id = $2 and $1::integer > 0',
    [of(ENDPOINTS, row)],
  ],
  otherAlias: () => [`update callback_endpoints set alias = 'held', generation = $1 where alias = 'x'`, []],
  secret: ({ row, other }: Change) => [
    `insert into signing_secrets (project_id, endpoint_id, version, secret_box, issued_at)
     values ($2, $3, $4, '\\x0161', to_timestamp($1::integer))
     on conflict (project_id, endpoint_id, version) do update set issued_at = excluded.issued_at`,
    [of(PROJECTS, 0), of(ENDPOINTS, row), 1 + (other % 2)],
  ],
  noSecret: ({ row }: Change) => [
    'delete from signing_secrets where endpoint_id = $2 and $1::integer > 0',
    [of(ENDPOINTS, row)],
  ],
} satisfies Record<string, (change: Change) => [string, unknown[]] | (string | unknown[])[]>;

export const CHANGE_KINDS = Object.keys(CHANGES) as Change['kind'][];

/** The mark of each row that has one. */
export const MARKS = `
  select 'organization ' || organization_id as key, extract(epoch from created_at)::integer as mark from organizations
  union all select 'project ' || project_id, version from projects
  union all select 'endpoint ' || endpoint_id, generation::integer from callback_endpoints
  union all select 'secret ' || endpoint_id || version, extract(epoch from issued_at)::integer from signing_secrets`;

/** Fewer than a pool of tests has connections. */
const MOST_OPEN = 4;

/** Several writers of the directory, a few of them at once. What another one holds, and what breaks a rule of the schema, is not written. */
export class DirectoryWriters {
  readonly #pool: Pool;
  #mark = 0;
  readonly #open: Connection[] = [];

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Makes the changes in one transaction; `end`: what becomes of it now. */
  async write(changes: readonly Change[], end: 'commit' | 'rollback' | 'later'): Promise<void> {
    const tx = await this.#pool.connect();
    await tx.query('begin');
    await tx.query(`set local lock_timeout = '30ms'`);
    for (const change of changes) {
      this.#mark += 1;
      const [text, values] = CHANGES[change.kind](change) as [string, unknown[]];
      await tx.query('savepoint change');
      await tx.query(text, [this.#mark, ...values]).catch(() => tx.query('rollback to change'));
    }
    if (end === 'later' && this.#open.length < MOST_OPEN) this.#open.push(tx);
    else await endOf(tx, end === 'rollback' ? 'rollback' : 'commit');
  }

  /** Commits one of those that are open. */
  async commit(index: number): Promise<void> {
    const [tx] = this.#open.splice(index % Math.max(1, this.#open.length), 1);
    if (tx) await endOf(tx, 'commit');
  }

  async commitAll(): Promise<void> {
    while (this.#open.length > 0) await this.commit(0);
  }
}

async function endOf(tx: Connection, end: 'commit' | 'rollback'): Promise<void> {
  await tx.query(end);
  tx.release();
}
