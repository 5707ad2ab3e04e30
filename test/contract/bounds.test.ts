// Every bound that the OpenAPI document publishes for what callers send is the one that validates: what is at it is taken,
// and what is beyond it is refused with the path of the field. The cases follow from the document, so that a new field or
// bound is covered the day it is added.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import { parseRequest, type RawRequest } from '../../src/contract/operations/request.ts';
import { ProblemError } from '../../src/domain/problem.ts';

interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  items?: Schema;
  minItems?: number;
  maxItems?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | boolean;
  propertyNames?: Schema;
  maxProperties?: number;
}

interface Parameter {
  $ref?: string;
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  schema: Schema;
}

const document = JSON.parse(
  readFileSync(new URL('../../docs/contract/openapi.json', import.meta.url), 'utf8'),
);

function resolve<T extends { $ref?: string }>(value: T): T {
  if (value.$ref === undefined) return value;
  return value.$ref
    .split('/')
    .slice(1)
    .reduce((at, key) => at[key], document);
}

/** One of a request, at a field: the whole of it with a value there. */
interface Field {
  path: readonly string[];
  schema: Schema;
  put: (value: unknown) => unknown;
}

/** A value and the path at which it is refused; without a path it is taken at its field. */
interface Case {
  what: string;
  value: unknown;
  refusedAt?: readonly string[];
}

/** The schemas of a value but for null. */
function alternatives(schema: Schema): Schema[] {
  const own = resolve(schema);
  const branches = own.anyOf ?? own.oneOf;
  if (!branches) return [own];
  return branches.filter(({ type }) => type !== 'null').flatMap(alternatives);
}

const typeOf = ({ type }: Schema) => [type].flat().find((one) => one !== 'null');
/** Texts of which one fits each pattern. */
const UUID = '5f0c3a52-6f0e-4b7e-9d58-1f6a7c0e2b91';
const TEXTS = ['UTC', 'a', '0 0 1 1 *', 'a=b', 'https://example.com/', 'orphaned', '"configuration-1"', UUID];

function textFor({ format, pattern = '' }: Schema): string {
  if (format === 'date-time') return '2026-01-01T00:00:00Z';
  const found = TEXTS.find((text) => new RegExp(pattern, 'u').test(text));
  if (found === undefined) throw new Error(`Add a text that fits ${pattern}.`);
  return found;
}

/** The least value that fits. */
function sampleOf(schema: Schema): unknown {
  const [own = {}] = alternatives(schema);
  if (own.const !== undefined) return own.const;
  if (own.enum) return own.enum[0];
  switch (typeOf(own)) {
    case 'integer':
    case 'number':
      return own.minimum ?? 1;
    case 'boolean':
      return true;
    case 'array':
      return Array.from({ length: own.minItems ?? 0 }, () => sampleOf(own.items ?? {}));
    case 'object':
      return Object.fromEntries(
        (own.required ?? []).map((name) => [name, sampleOf(own.properties?.[name] ?? {})]),
      );
    default:
      return textFor(own);
  }
}

/** A field and all fields in it. */
function fieldsIn({ path, schema, put }: Field): Field[] {
  return alternatives(schema).flatMap((own) => {
    const base = typeOf(own) === 'object' ? (sampleOf(own) as object) : {};
    const named = Object.entries(own.properties ?? {}).flatMap(([name, field]) =>
      fieldsIn({
        path: [...path, name],
        schema: field,
        put: (value) => put({ ...base, [name]: value }),
      }),
    );
    const { items, additionalProperties: values } = own;
    const inList = items
      ? fieldsIn({ path: [...path, '0'], schema: items, put: (value) => put([value]) })
      : [];
    const inMap =
      typeof values === 'object'
        ? fieldsIn({ path: [...path, 'key'], schema: values, put: (value) => put({ key: value }) })
        : [];
    return [{ path, schema: own, put }, ...named, ...inList, ...inMap];
  });
}

function casesOf({ path, schema }: Field): Case[] {
  const beyond = (what: string, value: unknown, refusedAt = path) => ({ what, value, refusedAt });
  if (schema.const !== undefined || schema.enum) return [beyond('another word', 'no such word')];
  switch (typeOf(schema)) {
    case 'integer':
    case 'number':
      return [beyond('a text', 'text'), ...casesOfNumber(schema, path)];
    case 'boolean':
      return [beyond('a text', 'text')];
    case 'array':
      return [...casesOfList(schema, path)];
    case 'object':
      return [beyond('a text', 'text'), ...casesOfObject(schema, path)];
    default:
      return [...casesOfText(schema, path)];
  }
}

function casesOfNumber(schema: Schema, path: readonly string[]): Case[] {
  const { minimum, maximum } = schema;
  const isOpen = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER;
  return [
    ...(typeOf(schema) === 'integer'
      ? [{ what: 'a fraction', value: (minimum ?? 0) + 0.5, refusedAt: path }]
      : []),
    ...(minimum === undefined
      ? []
      : [
          { what: 'the minimum', value: minimum },
          { what: 'less than the minimum', value: minimum - 1, refusedAt: path },
        ]),
    ...(isOpen
      ? []
      : [
          { what: 'the maximum', value: maximum },
          { what: 'more than the maximum', value: maximum + 1, refusedAt: path },
        ]),
  ];
}

/** What a pattern takes and the schema does not, by what the text means. */
const MEANT = ['timeZone', 'cron', 'url'];

function casesOfText(schema: Schema, path: readonly string[]): Case[] {
  const { minLength = 0, maxLength, pattern, format } = schema;
  const isMeant = format !== undefined || MEANT.includes(path.at(-1) ?? '');
  const fits = (text: string) => !isMeant && new RegExp(pattern ?? '', 'u').test(text);
  const atBound = [minLength, maxLength ?? 0]
    .filter((length) => length > 0)
    // Not the `a` of other samples: some fields must differ from others.
    .map((length) => 'b'.repeat(length));
  return [
    ...atBound.filter(fits).map((value) => ({ what: `${value.length} characters`, value })),
    ...(minLength > 0 ? [{ what: 'no character', value: '', refusedAt: path }] : []),
    ...(maxLength === undefined
      ? []
      : [{ what: 'one character more', value: 'a'.repeat(maxLength + 1), refusedAt: path }]),
    ...(pattern === undefined && format === undefined
      ? []
      : [{ what: 'a control character', value: 'a\u0001a', refusedAt: path }]),
  ];
}

function casesOfList({ items = {}, minItems = 0, maxItems }: Schema, path: readonly string[]): Case[] {
  const sample = sampleOf(items);
  // Some lists name each thing once.
  const listOf = (length: number) =>
    Array.from({ length }, (_, index) => {
      if (sample === 'UTC') return `a${index}`;
      const isMonitor = typeof sample === 'object' && sample !== null && 'monitorId' in sample;
      return isMonitor ? { ...sample, monitorId: `a${index}` } : sample;
    });
  return [
    ...(minItems > 0 ? [{ what: 'no item', value: [], refusedAt: path }] : []),
    ...(maxItems === undefined
      ? []
      : [
          { what: `${maxItems} items`, value: listOf(maxItems) },
          { what: 'one item more', value: listOf(maxItems + 1), refusedAt: path },
        ]),
  ];
}

function casesOfObject(schema: Schema, path: readonly string[]): Case[] {
  const { required = [], additionalProperties: values, maxProperties, propertyNames } = schema;
  const base = sampleOf(schema) as Record<string, unknown>;
  const lacking = required.map((name) => {
    const { [name]: _, ...rest } = base;
    return { what: `no ${name}`, value: rest, refusedAt: [...path, name] };
  });
  const unknown =
    values === false
      ? [{ what: 'an unknown field', value: { ...base, unknown: 1 }, refusedAt: [...path, 'unknown'] }]
      : [];
  if (typeof values !== 'object') return [...lacking, ...unknown];
  const mapOf = (length: number) =>
    Object.fromEntries(Array.from({ length }, (_, index) => [`k${index}`, sampleOf(values)]));
  const longKey = 'a'.repeat((propertyNames?.maxLength ?? 0) + 1);
  return [
    ...lacking,
    { what: 'a long key', value: { [longKey]: sampleOf(values) }, refusedAt: [...path, longKey] },
    ...(maxProperties === undefined
      ? []
      : [
          { what: `${maxProperties} keys`, value: mapOf(maxProperties) },
          { what: 'one key more', value: mapOf(maxProperties + 1), refusedAt: path },
        ]),
  ];
}

const HEADERS = { 'idempotency-key': 'a-key', 'if-match': '"configuration-1"' };

function pathsOfFaults(spec: OperationSpec, request: Partial<RawRequest>): string[] {
  try {
    parseRequest(spec, { params: {}, query: {}, body: undefined, headers: HEADERS, ...request });
    return [];
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    return (error.options.fieldErrors ?? []).map(({ path }) => path);
  }
}

/** What is wrong with the answers to the cases of a field. */
function mistakes(
  fields: readonly Field[],
  answer: (request: unknown) => string[],
  nameOf: (path: readonly string[]) => string,
): string[] {
  const wrong: string[] = [];
  for (const field of fields) {
    const name = nameOf(field.path);
    for (const { what, value, refusedAt } of casesOf(field)) {
      const faults = answer(field.put(value));
      // Paths of field errors are cut.
      const place = nameOf(refusedAt ?? field.path).slice(0, 256);
      const isNamed = faults.some((path) => path === place || (!refusedAt && path.startsWith(`${place}.`)));
      if (isNamed !== (refusedAt !== undefined)) wrong.push(`${name}: ${what} (${faults.join(' ')})`);
    }
  }
  return wrong;
}

const operations: OperationSpec[] = Object.values(contractOperations());
const named = (specs: readonly OperationSpec[]) => specs.map((spec) => [spec.operationId, spec] as const);
const describedOf = ({ method, path }: OperationSpec) => document.paths[path][method.toLowerCase()];
/** Those that the frame checks have tests of their own (test/api/bad-input.test.ts). */
const OF_THE_FRAME = ['X-Correlation-ID', 'Service-Project'];
const parametersOf = (spec: OperationSpec): Parameter[] =>
  (describedOf(spec).parameters as Parameter[])
    .map(resolve)
    .filter(({ name }) => !OF_THE_FRAME.includes(name));
const withBody = operations.filter(({ body, rawBody }) => body && !rawBody);
const bodyFields = (spec: OperationSpec) => {
  const { schema } = describedOf(spec).requestBody.content['application/json'];
  return fieldsIn({ path: [], schema, put: (value) => value });
};
const fieldsOfParameter = ({ name, schema }: Parameter) =>
  fieldsIn({ path: [name], schema, put: (value) => value });

describe('the bounds of the document', () => {
  it.each(named(withBody))(
    'the body of %s is taken up to its bounds and refused beyond them',
    (_id, spec) => {
      const answer = (body: unknown) => pathsOfFaults(spec, { body });
      expect(mistakes(bodyFields(spec), answer, (path) => path.join('.') || 'body')).toEqual([]);
    },
  );

  it.each(named(operations))(
    'the parameters of %s are taken up to their bounds and refused beyond them',
    (_id, spec) => {
      for (const parameter of parametersOf(spec)) {
        const answer = (value: unknown) => pathsOfFaults(spec, requestWith(parameter, value));
        expect(mistakes(fieldsOfParameter(parameter), answer, () => parameter.name)).toEqual([]);
      }
    },
  );

  it('the document has many bounds', () => {
    const fields = [
      ...withBody.flatMap(bodyFields),
      ...operations.flatMap((spec) => parametersOf(spec).flatMap(fieldsOfParameter)),
    ];
    expect(fields.flatMap(casesOf).length).toBeGreaterThan(500);
  });
});

/** Parameters are texts. */
function requestWith({ name, in: where }: Parameter, value: unknown): Partial<RawRequest> {
  const text = Array.isArray(value) ? value.map(String) : String(value);
  if (where === 'path') return { params: { [name]: text } };
  if (where === 'query') return { query: { [name]: text } };
  return { headers: { ...HEADERS, [name.toLowerCase()]: text } };
}
