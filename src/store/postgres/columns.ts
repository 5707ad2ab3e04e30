// Prepared statements over the columns of a table. A column table names each column once, in an object of the same
// shape as the TypeScript object of a row. The lists of SELECT, INSERT and UPDATE, array parameters and the reader of a
// row follow from it. Parameters get their numbers here, each together with its value.
import { fromMillis, millis, wholeMillis } from './moments.ts';

/** Adds a parameter and returns its place in the text, such as `$3`. `read` takes its value from the input. */
export type Bind<Input> = (read: (input: Input) => unknown) => string;

export interface Query {
  name: string;
  text: string;
  values: unknown[];
}

/**
 * A prepared statement. `write` runs once, for the first input, and returns the text. The result reads the values for that
 * text from an input.
 */
export function statement<Input>(
  name: string,
  write: (bind: Bind<Input>) => string,
): (input: Input) => Query {
  const readers: ((input: Input) => unknown)[] = [];
  let text: string | undefined;
  return (input) => {
    text ??= write((read) => `$${readers.push(read)}`);
    return { name, text, values: readers.map((read) => read(input)) };
  };
}

interface ColumnOptions<Value> {
  /** SQL type of a parameter. */
  type: string;
  /** SQL that reads the column. Default: the column itself. */
  read?: (column: string) => string;
  /** SQL that stores a parameter. Default: the parameter itself. */
  write?: (parameter: string) => string;
  /** The parameter of a value. Default: the value itself. */
  encode?: (value: Value) => unknown;
  /** The values of many rows as one parameter, and the SQL of the array. Default: the driver's array. */
  toArray?: <Row>(rows: readonly Row[], get: (row: Row) => unknown) => unknown;
  arraySql?: (parameter: string) => string;
  /** Converts what the driver returns. Default: NULL becomes undefined. */
  decode?: (stored: never) => NoInfer<Value> | undefined;
}

class Column<Value> {
  readonly name: string;
  readonly options: ColumnOptions<Value>;

  constructor(name: string, options: ColumnOptions<Value>) {
    this.name = name;
    this.options = options;
  }
}

class OptionalGroup<Row> {
  readonly columns: Columns<Row>;

  constructor(columns: Columns<Row>) {
    this.columns = columns;
  }
}

type Part<Value> = Column<Value> | (Value extends object ? Columns<Value> | OptionalGroup<Value> : never);

/** A column for each property; for a nested object its columns. */
export type Columns<Row> = { readonly [Key in keyof Required<Row>]: Part<NonNullable<Row[Key]>> };

function of<Value>(name: string, options: ColumnOptions<Value>): Column<Value> {
  return new Column(name, options);
}

/**
 * Values that need no quotes in an array: numbers, booleans, uuids, words of our own. Not for ids that callers choose:
 * one of them may be the word `null`.
 */
function plain<Value>(name: string, type: string): Column<Value> {
  return new Column<Value>(name, { type, toArray: plainArray });
}

/** Any values: the driver quotes them. */
function quoted<Value>(name: string, type: string): Column<Value> {
  return new Column<Value>(name, { type });
}

/** Texts without control characters (ids, JSON, our own sentences), none of them empty. */
function line<Value extends string>(name: string): Column<Value> {
  return new Column<Value>(name, { type: 'text', toArray: textList, arraySql: textListSql });
}

/** jsonb. `absent`: what NULL becomes. */
function json<Value>(name: string, absent?: () => NoInfer<Value>): Column<Value> {
  return new Column<Value>(name, { type: 'jsonb', encode: JSON.stringify, decode: orElse(absent) });
}

function orElse<Value>(absent: (() => Value) | undefined) {
  return absent && ((stored: Value | null) => stored ?? absent());
}

/** timestamptz of whole milliseconds. */
function moment(name: string): Column<number> {
  return new Column<number>(name, {
    type: 'bigint',
    read: millis,
    write: fromMillis,
    toArray: plainArray,
  });
}

/** timestamptz that Postgres writes by clock_timestamp(); read without its microseconds. */
function clockMoment(name: string): Column<number> {
  return new Column<number>(name, { type: 'bigint', read: wholeMillis });
}

/** An expression: only for SELECT. */
function computed<Value>(name: string, sql: string, absent?: () => NoInfer<Value>): Column<Value> {
  return new Column<Value>(name, { type: '', read: () => sql, decode: orElse(absent) });
}

/** A nested object that is absent when its first column is NULL. */
function optional<Row>(columns: Columns<Row>): OptionalGroup<Row> {
  return new OptionalGroup(columns);
}

/** The kinds of columns; `of` defines one by its options. */
export const column = { of, plain, quoted, line, json, moment, clockMoment, computed, optional };

interface Leaf<Row> {
  column: Column<unknown>;
  /** The value in the object. */
  get: (row: Row) => unknown;
}

/** Every column, with the function that reads its value from the object. */
function leavesOf<Row>(columns: Columns<Row>): Leaf<Row>[] {
  return Object.entries<unknown>(columns).flatMap(([key, part]) => {
    const get = (row: Row) => (row as Record<string, unknown> | undefined)?.[key];
    if (part instanceof Column) return { column: part, get };
    const nested = part instanceof OptionalGroup ? part.columns : (part as Columns<unknown>);
    return leavesOf(nested).map((leaf) => ({ column: leaf.column, get: (row: Row) => leaf.get(get(row)) }));
  });
}

const join = <Row>(columns: Columns<Row>, sql: (column: Column<unknown>) => string) =>
  leavesOf(columns)
    .map(({ column }) => sql(column))
    .join(', ');

const written = ({ options }: Column<unknown>, parameter: string) => options.write?.(parameter) ?? parameter;

/** `a.one, (…)::bigint as two`: for a SELECT, or RETURNING, of a table's alias. */
function select<Row>(columns: Columns<Row>, alias: string): string {
  return join(columns, ({ name, options: { read } }) =>
    read ? `${read(`${alias}.${name}`)} as ${name}` : `${alias}.${name}`,
  );
}

/** `one, two`: the columns of an INSERT, or of an UPDATE of a row. */
function names<Row>(columns: Columns<Row>): string {
  return join(columns, ({ name }) => name);
}

/** `one = v.one, …`: an UPDATE from `v`. */
function assignments<Row>(columns: Columns<Row>): string {
  return join(columns, (it) => `${it.name} = ${written(it, `v.${it.name}`)}`);
}

/** `v.one, to_timestamp(v.two / 1000.0)`: what an INSERT takes from `v`. */
function values<Row>(columns: Columns<Row>): string {
  return join(columns, (it) => written(it, `v.${it.name}`));
}

/** `$1, to_timestamp($2 / 1000.0)`: one object as parameters. */
function parameters<Row, Input>(
  columns: Columns<Row>,
  bind: Bind<Input>,
  row: (input: Input) => NoInfer<Row>,
): string {
  return leavesOf(columns)
    .map((leaf) => {
      const encoded = encoderOf(leaf);
      return written(
        leaf.column,
        bind((input) => encoded(row(input))),
      );
    })
    .join(', ');
}

/** `unnest($1::uuid[], …) as v (one, …)`: many objects, an array parameter for each column. */
function unnest<Row, Input>(
  columns: Columns<Row>,
  bind: Bind<Input>,
  rows: (input: Input) => readonly NoInfer<Row>[],
): string {
  const arrays = leavesOf(columns).map((leaf) => {
    const {
      type,
      toArray = sparseArray,
      arraySql = (parameter) => `${parameter}::${type}[]`,
    } = leaf.column.options;
    const encoded = encoderOf(leaf);
    return arraySql(bind((input) => toArray(rows(input), encoded)));
  });
  return `unnest(${arrays.join(', ')}) as v (${names(columns)})`;
}

/**
 * `jsonb_to_recordset($1::jsonb) as v (one uuid, …)`: many objects as one parameter. The plan does not
 * depend on their number.
 */
function recordset<Row, Input>(
  columns: Columns<Row>,
  bind: Bind<Input>,
  rows: (input: Input) => readonly NoInfer<Row>[],
): string {
  const leaves = leavesOf(columns);
  for (const {
    column: { name, options },
  } of leaves) {
    const isJson = options.encode === undefined || options.encode === JSON.stringify;
    if (!isJson) throw new RangeError(`A recordset cannot encode the column ${name}.`);
  }
  const toRecord = (row: Row) => Object.fromEntries(leaves.map(({ column, get }) => [column.name, get(row)]));
  const parameter = bind((input) => JSON.stringify(rows(input).map(toRecord)));
  return `jsonb_to_recordset(${parameter}::jsonb) as v (${join(columns, (it) => `${it.name} ${it.options.type}`)})`;
}

/** Parts of statements, over tables of columns. */
export const sql = { select, names, assignments, values, parameters, unnest, recordset };

function encoderOf<Row>({ column, get }: Leaf<Row>): (row: Row) => unknown {
  const encode = column.options.encode as ((value: unknown) => unknown) | undefined;
  if (!encode) return get;
  return (row) => {
    const value = get(row);
    return value === undefined ? undefined : encode(value);
  };
}

type Reader = (row: Record<string, unknown>) => unknown;

/** Converts a row that was selected with `sql.select` to its object. */
export function rowReader<Row>(columns: Columns<Row>): (row: object) => Row {
  return readerOf(columns) as (row: object) => Row;
}

function readerOf(columns: object): Reader {
  const parts = Object.entries(columns).map(([key, part]) => ({ key, read: partReaderOf(part) }));
  const empty = Object.fromEntries(parts.map(({ key }) => [key, undefined as unknown]));
  return (row) => {
    // The copy has all properties from the start: the only allocation for each row.
    const object = { ...empty };
    for (let index = 0; index < parts.length; index += 1) {
      const part = parts[index] as (typeof parts)[number];
      object[part.key] = part.read(row);
    }
    return object;
  };
}

function partReaderOf(part: object): Reader {
  if (part instanceof OptionalGroup) {
    const read = readerOf(part.columns);
    const [first] = leavesOf(part.columns);
    return (row) => (row[first?.column.name ?? ''] === null ? undefined : read(row));
  }
  if (!(part instanceof Column)) return readerOf(part);
  const { name } = part;
  const decode = part.options.decode as ((stored: unknown) => unknown) | undefined;
  return decode ? (row) => decode(row[name]) : (row) => row[name] ?? undefined;
}

// Array parameters. An array without any value is undefined: `unnest` fills it up with nulls beside other arrays, and
// Postgres need not parse it.

/** The array as it is. */
function sparseArray<Row>(rows: readonly Row[], get: (row: Row) => unknown): unknown[] | undefined {
  const values = rows.map(get);
  return values.some((value) => value !== undefined) ? values : undefined;
}

/** An array literal of values that need no quotes: faster than the driver's. */
function plainArray<Row>(rows: readonly Row[], get: (row: Row) => unknown): string | undefined {
  let literal = '';
  for (let index = 0; index < rows.length; index += 1) {
    const value = get(rows[index] as Row);
    if (literal !== '') {
      literal += ',';
      literal += value === undefined ? 'NULL' : value;
    } else if (value !== undefined) literal = `{${'NULL,'.repeat(index)}${value}`;
  }
  return literal === '' ? undefined : `${literal}}`;
}

const SEPARATOR = '\u001e';
const ABSENT = '\u001f';

/** SQL of the array, from the parameter that `textList` makes. */
function textListSql(parameter: string): string {
  return `string_to_array(${parameter}, chr(30), chr(31))`;
}

/**
 * Texts without control characters, none of them empty, as one parameter: faster than the driver, which tests every
 * character for quotes. Throws RangeError for a text that contains the separator.
 */
function textList<Row>(rows: readonly Row[], get: (row: Row) => unknown): string | undefined {
  const values = sparseArray(rows, get);
  if (!values) return undefined;
  const list = values.map((value) => value ?? ABSENT).join(SEPARATOR);
  const isWhole = list.split(SEPARATOR).length === values.length;
  if (!isWhole) throw new RangeError('A text of the list contains its separator.');
  return list;
}
