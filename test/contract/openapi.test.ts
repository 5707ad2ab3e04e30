// The OpenAPI document that the application composes of its routes: as it is published, valid, and complete.
import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { buildApp } from '../../src/api/app.ts';
import type { JsonObject } from '../../src/contract/json-schema.ts';
import { refusalsOf } from '../../src/contract/openapi/examples/refusals.ts';
import { completePaths } from '../../src/contract/openapi/openapi-document.ts';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';
import type { Problem } from '../../src/contract/resources/problem.ts';
import type { IncidentKind } from '../../src/domain/incident.ts';
import { openContext } from '../../src/service/calls/open-context.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';

interface Described {
  operationId: string;
  parameters: { $ref?: string; name?: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  responses: Record<string, { $ref?: string; headers?: object; content?: object }>;
  security?: object[];
}

/** The application needs no database until it is called. */
async function composeDocument(): Promise<JsonObject> {
  const context = openContext(
    {
      databaseUrl: 'postgres://127.0.0.1:1/none',
      databasePool: 1,
      encryptionKeys: [{ id: 'test', key: Buffer.alloc(32, 1) }],
      allowedPrivateDestinations: '',
      publicUrl: 'https://beatkeeper.example',
      // Lower than the published floor, which the document shows in a development run too.
      minimumIntervalSeconds: 2,
    },
    'test',
  );
  const telemetry = createTelemetry({ role: 'api', logLevel: 'silent' });
  const app = await buildApp({ context, telemetry, issuers: [] });
  try {
    await app.ready();
    return structuredClone(app.swagger()) as JsonObject;
  } finally {
    await app.close();
    await context.databases.default.end();
  }
}

const document = await composeDocument();
const paths = document.paths as Record<string, Record<string, Described>>;
const operations: OperationSpec[] = Object.values(contractOperations());

function described(spec: OperationSpec): Described {
  const found = paths[spec.path]?.[spec.method.toLowerCase()];
  if (!found) throw new Error(`${spec.operationId} is missing`);
  return found;
}

function references(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(references);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === '$ref' && typeof inner === 'string' ? [inner] : references(inner),
  );
}

interface SomeSchema {
  description?: string;
  enum?: unknown[];
}

/** Every object in a value under its key; the items of a list under the key of the list. */
function namedSchemas(value: unknown, key = ''): [string, SomeSchema][] {
  if (Array.isArray(value)) return value.flatMap((item) => namedSchemas(item, key));
  if (typeof value !== 'object' || value === null) return [];
  const inner = Object.entries(value).flatMap(([name, child]) => namedSchemas(child, name));
  return [[key, value as SomeSchema], ...inner];
}

interface Media {
  schema: object;
  example?: unknown;
  examples?: Record<string, { $ref: string }>;
}

interface Exampled {
  parameters: { name: string; in: string; schema: object; example?: unknown }[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
}

function resolved(reference: string): unknown {
  const path = reference.split('/').slice(1);
  return path.reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], document);
}

/** Every media type of a value, with its place. */
function mediaOf(value: unknown, where = ''): { where: string; media: Media }[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    if (key !== 'content') return mediaOf(inner, `${where}/${key}`);
    return Object.entries(inner as Record<string, Media>).map(([type, media]) => ({
      where: `${where} ${type}`,
      media,
    }));
  });
}

function parametersOf(described: JsonObject) {
  const items = Object.entries(described.paths as Record<string, Record<string, Exampled>>);
  return items.flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { parameters = [] }]) =>
      parameters
        .filter((parameter) => parameter.example !== undefined)
        .map((parameter) => ({ where: `${method} ${path} ${parameter.name}`, parameter })),
    ),
  );
}

describe('the OpenAPI document', () => {
  // A change of the contract is a change of this file. `npm run generate` writes it: read its diff as a client would.
  it('the composed document is docs/contract/openapi.json to the byte', async () => {
    await expect(`${JSON.stringify(document, null, 2)}\n`).toMatchFileSnapshot(
      '../../docs/contract/openapi.json',
    );
  });

  it('the document is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(document));
    expect(result.errors).toBeUndefined();
    expect(result.valid).toBe(true);
    expect(document.openapi).toBe('3.1.0');
  });

  it('every reference of the document has its target', () => {
    for (const reference of new Set(references(document))) {
      const target = reference
        .split('/')
        .slice(1)
        .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], document);
      expect([reference, typeof target]).toEqual([reference, 'object']);
    }
  });

  it.each(operations.map((spec) => [spec.operationId, spec] as const))(
    'the document describes %s with its headers and errors',
    (id, spec) => {
      const found = described(spec);
      expect(found.operationId).toBe(id);
      const parameters = found.parameters.map(({ $ref, name }) => name ?? $ref?.split('/').at(-1));
      expect(parameters.includes('Idempotency-Key')).toBe(spec.idempotent === true);
      expect(parameters.includes('If-Match')).toBe(spec.ifMatch !== undefined);
      expect(parameters).toContain('X-Correlation-ID');
      for (const status of refusalsOf(spec).keys()) {
        expect(found.responses[status]?.$ref).toContain(`#/components/responses/Problem${status}`);
      }
      const success = found.responses[spec.success];
      expect(Object.keys(success?.headers ?? {})).toEqual(
        expect.arrayContaining(['X-Request-ID', 'X-Correlation-ID', ...(spec.etag ? ['ETag'] : [])]),
      );
      expect(found.responses[200] !== undefined).toBe([200, 201].includes(spec.success));
    },
  );

  it('the document is not composed while an operation has no route', () => {
    expect(() => completePaths({})).toThrow('No route serves listMonitors.');
  });

  it('operation ids are unique in the document', () => {
    const ids = Object.values(paths).flatMap((item) =>
      Object.values(item).flatMap(({ operationId }) => operationId ?? []),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('the document shows /ping as public, with its text answers', () => {
    const success = paths['/ping/{publishId}']?.get;
    expect(success?.security).toEqual([]);
    expect(Object.keys(success?.responses[200]?.content ?? {})).toEqual(['text/plain', 'application/json']);
    for (const suffix of ['/start', '/fail', '/log', '/{exitStatus}']) {
      expect(Object.keys(paths[`/ping/{publishId}${suffix}`] ?? {})).toEqual([
        'parameters',
        'get',
        'head',
        'post',
      ]);
    }
  });

  it('wherever the document has violations it says of which beats they are', () => {
    const found = namedSchemas(document).filter(([name]) => name === 'violations');
    expect(found.length).toBeGreaterThan(2);
    for (const [, { description }] of found) expect(description).toContain('this success breaks');
  });

  it('the tag of incidents names each kind', () => {
    const words: Record<IncidentKind, string> = {
      missed_deadline: 'a missed deadline',
      reported_failure: 'a reported failure',
      overdue_run: 'a run that takes too long',
      rule_violation: 'a measurement that breaks its rule',
    };
    const tags = document.tags as { name: string; description: string }[];
    const { description } = tags.find(({ name }) => name === 'Incidents') ?? {};
    for (const word of Object.values(words)) expect(description).toContain(word);
  });

  it.each([['mcp_requests_per_minute', '`mcp_requests_per_minute` is reserved']])(
    'the document says of %s, which never happens, that it does not',
    (word, sentence) => {
      const found = namedSchemas(document).filter(([, { enum: words }]) => words?.includes(word));
      expect(found.length).toBeGreaterThan(0);
      for (const [name, { description }] of found)
        expect([name, description]).toEqual([name, expect.stringContaining(sentence)]);
    },
  );

  it('every example of the document fits its schema', () => {
    const ajv = new Ajv2020.default({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema(document, 'contract');
    let count = 0;
    const check = (where: string, schema: object, example: unknown) => {
      count += 1;
      const located = JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"contract#/'));
      ajv.validate(located, example);
      expect([where, ajv.errors]).toEqual([where, null]);
    };
    for (const { where, media } of mediaOf(document)) {
      if (media.example !== undefined) check(where, media.schema, media.example);
      for (const [name, { $ref }] of Object.entries(media.examples ?? {})) {
        check(`${where} ${name}`, media.schema, (resolved($ref) as { value: unknown }).value);
      }
    }
    for (const { where, parameter } of parametersOf(document))
      check(where, parameter.schema, parameter.example);
    expect(count).toBeGreaterThan(150);
  });

  it.each(operations.map((spec) => [spec.operationId, spec] as const))(
    'the document has an example of %s, with every part that is required',
    (_id, spec) => {
      const { parameters, requestBody, responses } = described(spec) as unknown as Exampled;
      const inPath = parameters.filter((one) => one.in === 'path');
      for (const parameter of inPath) expect(parameter).toHaveProperty('example');
      for (const media of Object.values(requestBody?.content ?? {})) expect(media).toHaveProperty('example');
      for (const media of Object.values(responses[spec.success]?.content ?? {})) {
        expect(media).toHaveProperty('example');
      }
    },
  );

  it.each(operations.map((spec) => [spec.operationId, spec] as const))(
    'the examples of refusals of %s name only what the operation has, and say when to try again',
    (_id, spec) => {
      const own = described(spec);
      const parameters = own.parameters.map(({ $ref, name }) => name ?? $ref?.split('/').at(-1));
      for (const [status, { $ref = '' }] of Object.entries(own.responses)) {
        if (Number(status) < 400) continue;
        const response = resolved($ref) as { headers: object; content: Record<string, Media> };
        const examples = Object.values(response.content['application/problem+json']?.examples ?? {});
        const values = examples.map((one) => (resolved(one.$ref) as { value: Problem }).value);
        expect(values.length).toBeGreaterThan(0);
        for (const { fieldErrors = [], status: stated } of values) {
          expect(stated).toBe(Number(status));
          for (const { path } of fieldErrors) {
            const isUnknown = path === 'verbose';
            const isOfBody = own.requestBody !== undefined && /^[a-z]/.test(path);
            expect([path, isUnknown || isOfBody || parameters.includes(path)]).toEqual([path, true]);
          }
        }
        const waits = values.some(({ retryAfterSeconds }) => retryAfterSeconds !== undefined);
        expect([status, 'Retry-After' in response.headers]).toEqual([status, waits]);
        if (status === '409' && spec.idempotent) expect(waits).toBe(true);
      }
    },
  );

  it('a JSON Schema 2020-12 validator accepts the schemas of the document', () => {
    const ajv = new Ajv2020.default({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema(document, 'contract');
    const components = document.components as { schemas: Record<string, object> };
    for (const id of Object.keys(components.schemas))
      ajv.compile({ $ref: `contract#/components/schemas/${id}` });
    const takes = (id: string, value: unknown) =>
      ajv.validate({ $ref: `contract#/components/schemas/${id}` }, value) === true;
    expect(takes('CreateMonitorRequest', { name: 'a', intervalSeconds: 60 })).toBe(true);
    expect(takes('CreateMonitorRequest', { name: 'a', intervalSeconds: 59 })).toBe(false);
    expect(takes('CreateMonitorRequest', { name: 'a', colour: 'red' })).toBe(false);
    expect(takes('UpdateMonitorRequest', { patch: { measurements: { rows: null } } })).toBe(true);
    expect(takes('BindingInput', { kind: 'named' })).toBe(false);
  });
});
