// The rights of the role that `api` and `sweeper` connect as, where the schema belongs to another one: they change rows,
// and tables only by the functions of the schema (docs/operations.md).
import type { Queryable } from './pool.ts';

/**
 * Grants what the role lacks, and of tables nothing where it lacks nothing: every pod that starts runs it. It locks no
 * table. Run it as the schema's owner, in a transaction, one at a time. Tables that the owner makes later have their
 * grants from the start (default privileges). Throws where there is no such role.
 */
export async function grantApplicationRole(db: Queryable, role: string): Promise<void> {
  const found = await db.query('select from pg_roles where rolname = $1', [role]);
  if (found.rowCount === 0)
    throw new Error(`The database has no role ${role}: create it, or correct DATABASE_APPLICATION_ROLE.`);
  const { rows } = await db.query<{ statement: string }>(MISSING_GRANTS, [role]);
  for (const { statement } of rows) await db.query(statement);
}

// In the schema of our tables, where others may have tables too. One privilege is asked for at a time: of a list
// has_table_privilege looks for any.
const MISSING_GRANTS = `
  with here as (
    select $1::name as role, current_schema() as schema, quote_ident(current_schema())::regnamespace as schema_id,
      quote_ident(current_user)::regrole as owner_id
  ), own_tables as (
    select oid, relname,
      case relname when 'schema_migrations' then '{select}'::text[] else '{select,insert,update,delete}' end as wanted
    from here, pg_class where relnamespace = schema_id and relkind in ('r', 'p') and relowner = owner_id
  )
  select format('grant usage on schema %I to %I', schema, role) as statement
  from here where not has_schema_privilege(role, schema, 'usage')
  union all
  select format('grant %s on %I to %I', array_to_string(wanted, ', '), relname, role) from here, own_tables
  where exists (select from unnest(wanted) as one where not has_table_privilege(role, oid, one))
  union all
  select format('grant execute on function %s to %I', oid::regprocedure, role) from here, pg_proc
  where pronamespace = schema_id and prosecdef and proowner = owner_id
    and not has_function_privilege(role, oid, 'execute')
  union all
  select format('alter default privileges in schema %I grant select, insert, update, delete on tables to %I', schema, role)
  from here`;
