// One setting: its environment variable, its description for `--help`, and the zod schema that parses its text.
// Building blocks for the schemas of all roles.
import { z } from 'zod';

export interface VariableInfo {
  /** The environment variable. `<name>_FILE` may name a file with the value instead. */
  name: string;
  description: string;
  /** The value if the variable is not set or empty. */
  fallback?: string;
  /** One variable for each of these words, which stands for `<NAME>` in `name`. The schema parses an object by word. */
  words?: readonly string[];
}

/** How a word stands in the name of a variable: in upper case, and `_` for `-`. */
export function inVariable(word: string): string {
  return word.toUpperCase().replaceAll('-', '_');
}

/** The variable of each schema. */
export const variables = z.registry<VariableInfo>();

/** A setting that is required or has a fallback. It copies the schema, so that one schema may serve many variables. */
export function variable<T extends z.ZodType>(info: VariableInfo, schema: T): T {
  const own = schema.clone();
  variables.add(own, info);
  return own;
}

/** A setting that is undefined if its variable is not set. */
export function optional<T extends z.ZodType>(info: VariableInfo, schema: T): z.ZodOptional<T> {
  return variable(info, schema.optional());
}

export const text = z.string('is missing');

export function integer(minimum: number, maximum: number) {
  const rule = `must be a whole number from ${minimum} to ${maximum}`;
  return z
    .string('is missing')
    .regex(/^\d{1,15}$/, rule)
    .transform(Number)
    .refine((value) => value >= minimum && value <= maximum, rule);
}

/** A list separated by commas, without its empty entries. */
export const list = z.string().transform((value) =>
  value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== ''),
);

/** A JSON text, which `schema` then parses. `rule`: what to say of a text that is no JSON. */
export function json<T extends z.ZodType>(rule: string, schema: T) {
  return z
    .string()
    .transform((value, context): unknown => {
      try {
        return JSON.parse(value);
      } catch {
        context.addIssue({ code: 'custom', message: rule });
        return z.NEVER;
      }
    })
    .pipe(schema);
}

/** An http or https address without a slash at its end. */
export const baseUrl = z
  .string('is missing')
  .refine(isBaseUrl, 'must be an http or https address such as https://beats.example.com')
  .transform((value) => value.replace(/\/+$/, ''));

function isBaseUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, search, hash } = new URL(value);
  return ['http:', 'https:'].includes(protocol) && username === '' && search === '' && hash === '';
}

export const postgresUrl = z
  .string('is missing: give the address of a Postgres database, postgres://user:password@host:5432/name')
  .refine((value) => /^postgres(ql)?:\/\//.test(value), {
    error: 'must begin with postgres:// or postgresql://',
    abort: true,
  })
  .refine((value) => canParse(value), {
    error:
      'is no URL: write special characters of the user and the password as % and two hex digits, such as %2F for /',
    abort: true,
  });

/** As the driver reads it, which takes an address without a host too. Throws for what is no URL. */
export function parsePostgresUrl(value: string): URL {
  return URL.canParse(value) ? new URL(value) : new URL(value.replace('@/', '@localhost/'));
}

function canParse(value: string): boolean {
  return URL.canParse(value) || URL.canParse(value.replace('@/', '@localhost/'));
}
