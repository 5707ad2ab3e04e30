// Parses the raw HTTP request of an operation into its typed input, or throws the problem that lists its faults.
import { z } from 'zod';
import { type FieldError, ProblemError, WHOLE_BODY } from '../../domain/problem.ts';
import { fieldPath, MAX_FIELD_ERRORS, type Parsed, parseInput } from '../fields/field-errors.ts';
import { type EtagKind, HEADER, idempotencyKey, ifMatch, parseEtag } from '../fields/headers.ts';
import type { InputOf, OperationSpec } from './operation.ts';

type RawQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface RawRequest {
  params: unknown;
  query: RawQuery;
  /** Parsed JSON, or the text for an operation that reads it itself; undefined when the request had no body. */
  body: unknown;
  /** By lower-case names. A repeated header is a list. */
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

/**
 * Parses everything that a caller sends for one operation. Throws `precondition_required` for a missing `If-Match`, and
 * `validation_failed` with all other faults.
 */
export function parseRequest<Spec extends OperationSpec>(spec: Spec, raw: RawRequest): InputOf<Spec> {
  if (spec.ifMatch && raw.headers['if-match'] === undefined) {
    throw new ProblemError('precondition_required', {
      detail: 'Read the resource first, and send its ETag in If-Match.',
    });
  }
  const parts: Record<string, Parsed<unknown>> = {};
  if (spec.idempotent) parts.idempotencyKey = header(raw, idempotencyKey, HEADER.idempotencyKey);
  if (spec.ifMatch) parts.ifMatch = readVersion(spec.ifMatch, header(raw, ifMatch, HEADER.ifMatch));
  if (spec.params) parts.params = parseInput(spec.params, raw.params);
  parts.query = query(spec, raw.query);
  // A missing body counts as {}; null does not.
  const body = spec.bodyOptional && raw.body === undefined ? {} : raw.body;
  if (spec.rawBody) parts.body = { value: raw.body ?? '' };
  else if (spec.body) parts.body = parseBody(spec.body, body);

  const faults = Object.values(parts).flatMap((part) => ('fieldErrors' in part ? part.fieldErrors : []));
  if (faults.length > 0) throw validationFailed(faults);
  const values = Object.entries(parts).map(([name, part]) => [
    name,
    'value' in part ? part.value : undefined,
  ]);
  // InputOf takes the type of each part from the schema that has parsed it.
  return Object.fromEntries(values) as InputOf<Spec>;
}

/** A fault of the body as a whole has the path `body` (docs/contract/calls.md). */
function parseBody(schema: z.ZodType, body: unknown): Parsed<unknown> {
  if (body === undefined) {
    const message = 'The request has no body: send a JSON object, at least {}.';
    return { fieldErrors: [{ code: 'required', message, path: WHOLE_BODY }] };
  }
  const parsed = parseInput(schema, body);
  if ('value' in parsed) return parsed;
  return { fieldErrors: parsed.fieldErrors.map((fault) => ({ ...fault, path: fault.path || WHOLE_BODY })) };
}

function header(raw: RawRequest, schema: typeof ifMatch, name: string): Parsed<string> {
  return parseInput(schema, raw.headers[name.toLowerCase()], [name]);
}

/** The version that the ETag names; 0, which no resource has, for an ETag that the service never made. */
function readVersion(kind: EtagKind, tag: Parsed<string>): Parsed<number> {
  return 'value' in tag ? { value: parseEtag(kind, tag.value) ?? 0 } : tag;
}

function query(spec: OperationSpec, raw: RawQuery): Parsed<unknown> {
  if (spec.query) {
    const parsed = namedByParameter(parseInput(spec.query, decodeQuery(spec.query, raw)), spec.query);
    if ('value' in parsed) return parsed;
    const schema = spec.query;
    return {
      fieldErrors: parsed.fieldErrors.map((fault) => explain(fault, fieldOf(schema, fault.path), raw)),
    };
  }
  const unknown = Object.keys(raw).filter((name) => raw[name] !== undefined);
  if (unknown.length === 0) return { value: undefined };
  const message = 'Remove it: this operation has no such query parameter.';
  return {
    fieldErrors: unknown.map((path) => ({ code: 'unknown_field', message, path: fieldPath([path]) })),
  };
}

/** The path of a fault in a repeated parameter is its name, without the index (docs/contract/calls.md). */
function namedByParameter(parsed: Parsed<unknown>, { shape }: z.ZodObject): Parsed<unknown> {
  if ('value' in parsed) return parsed;
  const nameOf = ({ path, code }: FieldError) =>
    code === 'unknown_field'
      ? path
      : (Object.keys(shape).find((name) => path.startsWith(`${name}.`)) ?? path);
  return { fieldErrors: parsed.fieldErrors.map((fault) => ({ ...fault, path: nameOf(fault) })) };
}

/** A time whose offset lost its "+": a query string reads it as a blank. */
const TIME_WITHOUT_PLUS = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)? \d{2}:\d{2}$/i;

/** Says what a query string did to a value, where that is the fault. */
function explain(fault: FieldError, field: z.core.$ZodType | undefined, raw: RawQuery): FieldError {
  const value = raw[fault.path];
  if (!field || value === undefined) return fault;
  if (typeof value !== 'string') {
    const takesMany = unwrap(field) instanceof z.ZodArray;
    return takesMany ? fault : { ...fault, code: 'repeated', message: 'State this parameter once.' };
  }
  if (!TIME_WITHOUT_PLUS.test(value)) return fault;
  return { ...fault, message: 'Write the "+" of the offset as %2B: in a query string "+" is a blank.' };
}

/** A 400 with every fault, at most 32. */
export function validationFailed(faults: readonly FieldError[]): ProblemError {
  const first = faults[0];
  const where = first?.path ? `${first.path}: ` : '';
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : '';
  return new ProblemError('validation_failed', {
    detail: `The request is not valid. ${where}${first?.message ?? ''}${more}`.slice(0, 1024),
    fieldErrors: faults.slice(0, MAX_FIELD_ERRORS),
  });
}

/** The schema inside optional, nullable and default ones. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable) {
    return unwrap(schema.unwrap());
  }
  return schema;
}

/**
 * Query strings as the values that the schema expects: "10" is a number where a number is expected, a single parameter
 * is a list where a list is expected. A text that cannot be read so stays text, and the schema refuses it.
 */
function decodeQuery(schema: z.ZodObject, raw: RawQuery): Record<string, unknown> {
  const decoded: [string, unknown][] = [];
  for (const [name, value] of Object.entries(raw)) {
    if (value === undefined) continue;
    const field = fieldOf(schema, name);
    decoded.push([name, field ? decodeValue(unwrap(field), value) : value]);
  }
  return Object.fromEntries(decoded);
}

/** A caller may name a parameter `constructor`. */
function fieldOf({ shape }: z.ZodObject, name: string): z.core.$ZodType | undefined {
  return Object.hasOwn(shape, name) ? shape[name] : undefined;
}

function decodeValue(schema: z.core.$ZodType, value: string | readonly string[]): unknown {
  if (schema instanceof z.ZodArray) return typeof value === 'string' ? [value] : value;
  if (typeof value !== 'string') return value;
  if (schema instanceof z.ZodNumber && /^-?\d{1,15}$/.test(value)) return Number(value);
  if (schema instanceof z.ZodBoolean && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}
