// One setting: the environment variable that it comes from, its words for `--help`, and the zod schema that
// reads its text. Shared building blocks of the roles' schemas; knows no role.
import { z } from 'zod';

export interface VariableInfo {
  /** Environment variable; `<name>_FILE` may name a file with the value instead. */
  name: string;
  description: string;
  /** Text that counts when the variable is not set or empty. */
  fallback?: string;
}

/** Where the schemas keep their variable. */
export const variables = z.registry<VariableInfo>();

/** A required setting, or one with a fallback. The schema is copied: one may serve many variables. */
export function variable<T extends z.ZodType>(info: VariableInfo, schema: T): T {
  const own = schema.clone();
  variables.add(own, info);
  return own;
}

/** A setting that may be left out: `undefined` then. */
export function optional<T extends z.ZodType>(info: VariableInfo, schema: T): z.ZodOptional<T> {
  return variable(info, schema.optional());
}

export const text = z.string('is missing');

export function integer(minimum: number, maximum: number) {
  const words = `must be a whole number from ${minimum} to ${maximum}`;
  return z
    .string('is missing')
    .regex(/^\d{1,15}$/, words)
    .transform(Number)
    .refine((value) => value >= minimum && value <= maximum, words);
}

/** A comma list; empty entries are dropped. */
export const list = z.string().transform((value) =>
  value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== ''),
);

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
  .refine((value) => /^postgres(ql)?:\/\//.test(value), 'must begin with postgres:// or postgresql://');
