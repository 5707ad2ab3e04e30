// Query strings -> the typed values that the schemas describe. The schema decides the type: "10" is a number
// where a number is expected, a repeated parameter is a list where a list is expected.
import { z } from 'zod';

export type RawQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What is inside optional, default and described schemas. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable) {
    return unwrap(schema.unwrap());
  }
  return schema;
}

/** Values of a type other than text where the text can be read as one; else the text, which the schema refuses. */
export function decodeQuery(schema: z.ZodObject, raw: RawQuery): Record<string, unknown> {
  const decoded: [string, unknown][] = [];
  for (const [name, value] of Object.entries(raw)) {
    if (value === undefined) continue;
    const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined;
    decoded.push([name, field ? decodeValue(unwrap(field), value) : value]);
  }
  return Object.fromEntries(decoded);
}

function decodeValue(schema: z.core.$ZodType, value: string | readonly string[]): unknown {
  if (schema instanceof z.ZodArray) return typeof value === 'string' ? [value] : value;
  if (typeof value !== 'string') return value;
  if (schema instanceof z.ZodNumber && /^-?\d{1,15}$/.test(value)) return Number(value);
  if (schema instanceof z.ZodBoolean && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}
