// The tables of the directory: what belongs to organizations, and is copied to the database of each jurisdiction that has
// its own (docs/adr/0013). Their triggers are in migrations/0003-directory.sql.

export interface DirectoryTable {
  name: string;
  /** Columns of the primary key, with their types. */
  key: Readonly<Record<string, string>>;
  /** Columns that are not copied. */
  left: readonly string[];
  /** SQL: assignments that take the unique names of a copy away, so that another one can have them. */
  nameless?: string;
  /** SQL: which rows of the table `t` are not copied. */
  except?: string;
}

const isInline = (
  alias: string,
) => `exists (select from callback_endpoints e where e.project_id = ${alias}.project_id
  and e.endpoint_id = ${alias}.endpoint_id and e.monitor_key is not null)`;

/** What a row refers to comes before it. A full copy goes by the places in this list. */
export const DIRECTORY_TABLES: readonly DirectoryTable[] = [
  {
    name: 'organizations',
    key: { organization_id: 'uuid' },
    left: [
      'active_monitors',
      'callback_endpoints',
      'monitors_elsewhere',
      'endpoints_elsewhere',
      'monitors_told',
      'endpoints_told',
      'told_by',
      'grace_is_given',
      'state_due_at',
      'returned_at',
      'billing_reconciled_at',
    ],
    nameless: 'name = organization_id::text',
  },
  { name: 'projects', key: { project_id: 'uuid' }, left: [], nameless: 'name_key = project_id::text' },
  { name: 'credential_addresses', key: { credential_id: 'text' }, left: [] },
  { name: 'credentials', key: { project_id: 'uuid', credential_id: 'text' }, left: ['last_used_at'] },
  { name: 'relay_topics', key: { topic_id: 'uuid' }, left: [], nameless: 'actor_id = topic_id::text' },
  {
    name: 'callback_endpoints',
    key: { project_id: 'uuid', endpoint_id: 'text' },
    left: ['last_delivery'],
    nameless: 'alias = null, origin_kind = null',
    except: 't.monitor_key is not null',
  },
  {
    name: 'signing_secrets',
    key: { project_id: 'uuid', endpoint_id: 'text', version: 'integer' },
    left: [],
    except: isInline('t'),
  },
];

/** What says which copies there are, what they lack, and which slots are promised to places. None of it is copied. */
export const COPY_TABLES: readonly string[] = [
  'directory_places',
  'directory_changes',
  'directory_batches',
  'directory_copy',
  'directory_rows',
  'directory_reports',
  'place_slots',
  'slot_reservations',
  'used_reservations',
];

/** A row, by the columns of its key. */
export type RowKey = Readonly<Record<string, string | number>>;

/** SQL: that the row `t` has the key `key`. */
export function hasKey({ key }: DirectoryTable, t: string, rowKey: string): string {
  return Object.entries(key)
    .map(([name, type]) => `${t}.${name} = (${rowKey} ->> '${name}')::${type}`)
    .join(' and ');
}

/** SQL: the key of the row `t`. */
export function keyOf({ key }: DirectoryTable, t: string): string {
  return `jsonb_build_object(${Object.keys(key).map((name) => `'${name}', ${t}.${name}`)})`;
}

/** The statement that reads the keys of a page: those after the key $1 (null: from the first one), $2 at most. */
export function keysAfter(table: DirectoryTable): string {
  const names = Object.keys(table.key).map((name) => `t.${name}`);
  const after = Object.entries(table.key).map(([name, type]) => `($1::jsonb ->> '${name}')::${type}`);
  return `select ${keyOf(table, 't')}::text as key from ${table.name} t
    where ($1::jsonb is null or (${names}) > (${after})) and not (${table.except ?? 'false'})
    order by ${names} limit $2`;
}
