// The sealed values of all tables by the id of their key: finds and counts them, and exchanges their boxes. Each table has
// a column with that id, which Postgres reads from the box itself, and an index that begins with it.

import { relayTopicPlace } from '../callbacks/relay-topics.ts';
import { isDistributed } from '../postgres/engine.ts';
import type { Database, Queryable } from '../postgres/pool.ts';
import { type Purpose, placeOf } from '../postgres/secret-box.ts';
import { countInShards, replaceInShards } from './sealed-values-in-shards.ts';

/** The columns that name a row, as texts, in the order of the index. */
export type RowName = readonly string[];

export interface SealedTable {
  purpose: Purpose;
  table: string;
  box: string;
  keyId: string;
  /** Name, type, and a value below all others. */
  row: readonly (readonly [name: string, type: string, lowest: string])[];
  /** The associated data of the row's box. */
  placeOf: (row: RowName) => string;
}

const LOWEST_UUID = '00000000-0000-0000-0000-000000000000';

export const SEALED_TABLES: readonly SealedTable[] = [
  {
    purpose: 'url',
    table: 'callback_endpoints',
    box: 'url_box',
    keyId: 'url_key_id',
    row: [
      ['project_id', 'uuid', LOWEST_UUID],
      ['endpoint_id', 'text', ''],
    ],
    placeOf: ([projectId = '', endpointId = '']) => placeOf(projectId, endpointId, 'url'),
  },
  {
    purpose: 'relay-topic',
    table: 'relay_topics',
    box: 'topic_box',
    keyId: 'topic_key_id',
    row: [['topic_id', 'uuid', LOWEST_UUID]],
    placeOf: ([topicId = '']) => relayTopicPlace(topicId),
  },
  {
    purpose: 'signing-secret',
    table: 'signing_secrets',
    box: 'secret_box',
    keyId: 'secret_key_id',
    row: [
      ['project_id', 'uuid', LOWEST_UUID],
      ['endpoint_id', 'text', ''],
      ['version', 'integer', '0'],
    ],
    placeOf: ([projectId = '', endpointId = '']) => placeOf(projectId, endpointId, 'signing-secret'),
  },
  {
    purpose: 'answer',
    table: 'idempotency_records',
    box: 'body_box',
    keyId: 'body_key_id',
    // By age: such an index is a third of one by scope and key. Rows of one microsecond are sorted for a page.
    row: [
      ['created_at', 'timestamptz', '-infinity'],
      ['scope_id', 'uuid', LOWEST_UUID],
      ['key', 'text', ''],
    ],
    placeOf: ([, scopeId = '', key = '']) => placeOf(scopeId, key, 'answer'),
  },
];

export interface SealedValue {
  row: RowName;
  box: Buffer;
}

export interface SealedPage {
  keyId: string;
  /** Only rows behind this one. */
  after?: RowName;
  limit: number;
}

/**
 * The values that are sealed with a key, in the order of the index. The key stands in the order and in no equality, and
 * the bound is `>=`, so that Postgres takes the index whatever its statistics say: all rows have one key, and a moment
 * later none has it.
 */
export async function findSealedValues(
  db: Queryable,
  { table, box, keyId, row }: SealedTable,
  page: SealedPage,
): Promise<SealedValue[]> {
  const names = row.map(([name]) => name).join(', ');
  const last = row.map(([, type], index) => `$${index + 3}::${type}`).join(', ');
  const { rows } = await db.query<{ row: string[]; box: Buffer }>(
    `select array[${row.map(([name]) => `${name}::text`).join(', ')}] as row, ${box} as box
     from ${table}
     where (${keyId}, ${names}) >= ($1, ${last}) and ${keyId} <= $1 and (${names}) <> (${last})
     order by ${keyId}, ${names} limit $2`,
    [page.keyId, page.limit, ...(page.after ?? row.map(([, , lowest]) => lowest))],
  );
  return rows;
}

/** A value with the box that takes the place of its own. */
export interface ResealedValue extends SealedValue {
  newBox: Buffer;
}

/**
 * Writes the new boxes where the old ones still stand, and returns how many. A value that somebody else has changed or
 * holds a lock on stays as it is: this waits for nobody, so it needs no place in the lock order.
 */
export async function replaceSealedValues(
  db: Database,
  of: SealedTable,
  values: readonly ResealedValue[],
): Promise<number> {
  if (values.length === 0) return 0;
  if (isDistributed()) return await replaceInShards(db, of, values);
  const { table, box, row } = of;
  const names = row.map(([name]) => name);
  const arrays = row.map(([, type], index) => `$${index + 3}::${type}[]`).join(', ');
  const isSame = (other: string) => names.map((name) => `t.${name} = ${other}.${name}`).join(' and ');
  const { rowCount } = await db.query(
    `with held as (
       select ${names.map((name) => `t.${name}`).join(', ')}, v.new_box
       from unnest($1::bytea[], $2::bytea[], ${arrays}) as v (old_box, new_box, ${names.join(', ')})
       join ${table} t on ${isSame('v')}
       where t.${box} = v.old_box
       for update of t skip locked)
     update ${table} t set ${box} = held.new_box from held where ${isSame('held')}`,
    [
      values.map((value) => value.box),
      values.map((value) => value.newBox),
      ...names.map((_, index) => values.map((value) => value.row[index])),
    ],
  );
  return rowCount ?? 0;
}

/** How many values each key has sealed that has sealed any: one probe of the index for a key, then at most `limit` entries. */
export async function countSealedValues(
  db: Queryable,
  { table, keyId }: SealedTable,
  limit: number,
): Promise<Map<string, number>> {
  if (isDistributed()) return await countInShards(db, { table, keyId }, limit);
  const next = (after: string) =>
    `(select t.${keyId} from ${table} t where ${after} order by t.${keyId} limit 1)`;
  const { rows } = await db.query<{ id: string; count: number }>(
    `with recursive ids as (
       select ${next(`t.${keyId} is not null`)} as id
       union all
       select ${next(`t.${keyId} > ids.id`)} from ids where ids.id is not null)
     select ids.id, (select count(*)::integer from (
       select from ${table} t where t.${keyId} >= ids.id and t.${keyId} <= ids.id order by t.${keyId} limit $1) of_key
     ) as count
     from ids where ids.id is not null`,
    [limit],
  );
  return new Map(rows.map(({ id, count }) => [id, count]));
}
