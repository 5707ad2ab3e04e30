// What a schema has no more, or asks for, that the version before it does not know of: what breaks that version when it works
// on the newer schema. Triggers, and what functions do, it does not judge.
import type pg from 'pg';

type Db = Pick<pg.Pool, 'query'>;

/** By name, with the definition; columns with what they take when nobody states them. */
export interface Schema {
  columns: Map<string, Column>;
  /** Constraints, indexes, functions, triggers and views. */
  objects: Map<string, SchemaObject>;
}

interface Column {
  definition: string;
  isFilled: boolean;
}

interface SchemaObject {
  definition: string;
  /** The columns of tables that a write must satisfy: of constraints and unique indexes. */
  restricts: string[];
}

/** Of everything in the schema `public`, without partitions and the table of migrations. */
export async function readSchema(db: Db): Promise<Schema> {
  const columns = await db.query<Column & { name: string }>(COLUMNS);
  const objects = await db.query<SchemaObject & { name: string }>(OBJECTS);
  return {
    columns: new Map(columns.rows.map(({ name, ...column }) => [name, column])),
    objects: new Map(objects.rows.map(({ name, ...object }) => [name, object])),
  };
}

/** A sentence for each part of `before` that is gone or another one, and for each new demand on its tables. */
export function findContractions(before: Schema, after: Schema): string[] {
  const tables = new Set([...before.columns.keys()].map(tableOf));
  const found: string[] = [];
  for (const [name, { definition }] of [...before.columns, ...before.objects]) {
    const now = after.columns.get(name) ?? after.objects.get(name);
    if (now === undefined) found.push(`${name} is gone`);
    else if (now.definition !== definition) found.push(`${name} was ${definition} and is ${now.definition}`);
  }
  for (const [name, { definition, isFilled }] of after.columns) {
    if (before.columns.has(name) || !tables.has(tableOf(name)) || isFilled) continue;
    found.push(`${name} is new, ${definition}, and nobody fills it`);
  }
  for (const [name, { definition, restricts }] of after.objects) {
    const known = restricts.filter((column) => before.columns.has(column));
    if (!before.objects.has(name) && known.length > 0) found.push(`${name} is new: ${definition}`);
  }
  return found;
}

const tableOf = (column: string) => column.split('.')[0] ?? '';

const IS_OURS = `n.nspname = 'public' and not c.relispartition and c.relname <> 'schema_migrations'`;

const COLUMNS = `select c.relname || '.' || a.attname as name,
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      'default ' || pg_get_expr(d.adbin, d.adrelid), nullif(a.attgenerated, ''), nullif(a.attidentity, ''),
      (select collname from pg_collation where oid = a.attcollation)) as definition,
    not a.attnotnull or d.adbin is not null or a.attidentity <> '' as "isFilled"
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where ${IS_OURS} and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped`;

/**
 * Postgres 18 has not-null constraints too: columns say that already. A foreign key without an action refuses that rows which it
 * refers to are deleted.
 */
const CONSTRAINTS = `select 'constraint ' || c.relname || '.' || o.conname as name, pg_get_constraintdef(o.oid) as definition,
    array(select attrelid::regclass || '.' || attname from pg_attribute
      where attrelid = o.conrelid and attnum = any (o.conkey)
        or attrelid = o.confrelid and attnum = any (o.confkey) and o.confdeltype in ('a', 'r')) as restricts
  from pg_constraint o join pg_class c on c.oid = o.conrelid join pg_namespace n on n.oid = c.relnamespace
  where ${IS_OURS} and o.contype <> 'n'`;

/** An index of an expression restricts the whole table, as if by its first column. */
const INDEXES = `select 'index ' || i.relname as name, pg_get_indexdef(i.oid) as definition,
    case when x.indisunique then array(select c.relname || '.' || attname from pg_attribute
      where attrelid = c.oid and attnum > 0 and (attnum = any (x.indkey) or 0 = any (x.indkey))) else '{}' end as restricts
  from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class c on c.oid = x.indrelid
    join pg_namespace n on n.oid = c.relnamespace
  where ${IS_OURS}`;

const FUNCTIONS = `select 'function ' || p.oid::regprocedure as name, pg_get_function_result(p.oid) as definition,
    '{}'::text[] as restricts
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'public'`;

const TRIGGERS = `select 'trigger ' || c.relname || '.' || t.tgname as name, pg_get_triggerdef(t.oid) as definition,
    '{}'::text[] as restricts
  from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
  where ${IS_OURS} and not t.tgisinternal`;

const VIEWS = `select 'view ' || c.relname as name, pg_get_viewdef(c.oid) as definition, '{}'::text[] as restricts
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where ${IS_OURS} and c.relkind in ('v', 'm')`;

const OBJECTS = [CONSTRAINTS, INDEXES, FUNCTIONS, TRIGGERS, VIEWS].join(' union all ');
