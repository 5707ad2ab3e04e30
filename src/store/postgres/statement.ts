// SQL text whose parameters are numbered by the code that builds it: no number is written by hand, and a number and its
// value can't come apart.

/** Adds a parameter and returns its place in the text, such as `$3`. `read` takes its value from the input. */
export type Bind<Input> = (read: (input: Input) => unknown) => string;

export interface Query {
  name: string;
  text: string;
  values: unknown[];
}

/**
 * A prepared statement. `write` runs once and returns the text; each call of the result reads the values of that text
 * from its input.
 */
export function statement<Input>(
  name: string,
  write: (bind: Bind<Input>) => string,
): (input: Input) => Query {
  const readers: ((input: Input) => unknown)[] = [];
  const text = write((read) => `$${readers.push(read)}`);
  return (input) => ({ name, text, values: readers.map((read) => read(input)) });
}

/** The parameters of a text that depends on the call, such as a list with optional filters. */
export function parameters(): { values: unknown[]; bind: (value: unknown) => string } {
  const values: unknown[] = [];
  return { values, bind: (value) => `$${values.push(value)}` };
}
