// Lists with optional conditions, paged by (time, id), or by the id where ids are made from that time: the cost of a page
// does not grow with its depth. Cursors hold microseconds, the full precision of Postgres, so that no row is skipped or
// repeated.
import { type Columns, rowReader, sql } from './columns.ts';
import { fromMicros, micros } from './moments.ts';
import type { Queryable } from './pool.ts';

/** The last row of the previous page. */
export interface KeysetPosition {
  /** Microseconds since 1970. Absent in a list by id. */
  micros?: number;
  id: string;
}

export interface KeysetPage {
  /** Rows to read. Ask for one more than is shown, to know whether there is a next page. */
  limit: number;
  after?: KeysetPosition;
}

/** An item of a list with its position. */
export interface Positioned<Item> {
  item: Item;
  position: KeysetPosition;
}

/** SQL, and the value for its `$`. A condition whose value is undefined is left out. */
export type Condition = readonly [sql: string, value?: unknown];

/**
 * How many rows a named statement reads: a few sizes, as part of its text, for a page of the default size and for the
 * largest. For a size among its parameters Postgres would expect a tenth of the rows, or plan each page anew.
 */
const SIZES = [51, 201];

/** The size of a statement that reads at least `limit` rows. Name only those of a usual size: connections keep them. */
export function sizeFor(limit: number): { size: number; isUsual: boolean } {
  const usual = SIZES.find((most) => most >= limit);
  return { size: usual ?? limit, isUsual: usual !== undefined };
}

/** The parameters of a statement whose text depends on the call. */
export class ListQuery {
  readonly values: unknown[] = [];

  bind(value: unknown): string {
    return `$${this.values.push(value)}`;
  }

  where(conditions: readonly Condition[]): string {
    const stated = conditions.filter((condition) => condition.length === 1 || condition[1] !== undefined);
    return `where ${stated.map(([text, value]) => text.replace(/\$(?!\d)/, () => this.bind(value))).join(' and ')}`;
  }
}

export interface KeysetList {
  /** What follows FROM. */
  from: string;
  /** Of the table that has `time` and `id`. */
  alias: string;
  /** Absent where the ids are made from the time (`newId`): the primary key is the list's index. */
  time?: string;
  id: string;
  /** Conditions that divide the rows: each part has its own index, and a page is merged from a page of each. */
  parts?: readonly string[];
  /** Default: newest first. */
  order?: 'asc' | 'desc';
}

/**
 * Returns the function that reads a page. Not a prepared statement: each set of conditions has its own plan and index.
 */
export function keysetList<Item>(
  columns: Columns<Item>,
  { from, alias, parts, order = 'desc', ...names }: KeysetList,
) {
  const read = rowReader(columns);
  const id = `${alias}.${names.id}`;
  const time = names.time && `${alias}.${names.time}`;
  const position = time ? `${micros(time)} as position_us, ${id} as position_id` : `${id} as position_id`;
  const select = `select ${sql.select(columns, alias)}, ${position} from`;
  const ordered = `order by ${time ? `${time} ${order}, ` : ''}${id} ${order}`;
  const than = order === 'asc' ? '>' : '<';
  return async (
    db: Queryable,
    conditions: readonly Condition[],
    { after, limit }: KeysetPage,
  ): Promise<Positioned<Item>[]> => {
    const query = new ListQuery();
    let where = query.where(conditions);
    if (after && time) {
      where += ` and (${time}, ${id}) ${than} (${fromMicros(query.bind(after.micros))}, ${query.bind(after.id)})`;
    } else if (after) where += ` and ${id} ${than} ${query.bind(after.id)}`;
    // As text: for a parameter a plan for all values expects a tenth of the rows.
    const most = `${ordered} limit ${limit}`;
    const pageOf = (part: string) => `(select ${alias}.* from ${from} ${where} and ${part} ${most})`;
    const rowsOf = parts ? `(${parts.map(pageOf).join(' union all ')}) ${alias}` : `${from} ${where}`;
    const { rows } = await db.query<{ position_us?: number; position_id: string }>(
      `${select} ${rowsOf} ${most}`,
      query.values,
    );
    return rows.map((row) => ({
      item: read(row),
      position: { micros: row.position_us, id: row.position_id },
    }));
  };
}
