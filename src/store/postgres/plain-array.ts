// Array parameters on the hot paths. Each is undefined when it has no value at all: beside other arrays `unnest` fills
// up with nulls, and Postgres need not read them.

/** The array as it is. */
export function sparseArray<Value>(
  values: readonly (Value | undefined)[],
): readonly (Value | undefined)[] | undefined {
  return values.some((value) => value !== undefined) ? values : undefined;
}

/**
 * An array literal of values that need no quotes (numbers, booleans, uuids, our own words): faster than the driver's.
 * Not for ids that callers choose: one of them may be the word `null`.
 */
export function plainArray(values: readonly (string | number | boolean | undefined)[]): string | undefined {
  if (!sparseArray(values)) return undefined;
  let literal = '{';
  for (let index = 0; index < values.length; index += 1) {
    if (index > 0) literal += ',';
    const value = values[index];
    literal += value === undefined ? 'NULL' : value;
  }
  return `${literal}}`;
}

const SEPARATOR = '\u001e';
const ABSENT = '\u001f';

/** SQL of the array that `textList` is the parameter of. */
export function textListSql(parameter: string): string {
  return `string_to_array(${parameter}, chr(30), chr(31))`;
}

/**
 * Texts without control characters (JSON, our own sentences), of which none is empty, as one parameter: the driver's
 * quoting of an array looks at every character. Throws RangeError for a text that the list can't hold.
 */
export function textList(values: readonly (string | undefined)[]): string | undefined {
  if (!sparseArray(values)) return undefined;
  const list = values.map((value) => value ?? ABSENT).join(SEPARATOR);
  const isWhole = list.split(SEPARATOR).length === values.length;
  if (!isWhole) throw new RangeError('A text of the list holds its separator.');
  return list;
}
