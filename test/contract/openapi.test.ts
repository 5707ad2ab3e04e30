// The OpenAPI document: valid, complete, and free of dead references.
import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../src/contract/openapi/openapi-document.ts';
import { errorStatuses, type OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';

interface Described {
  operationId: string;
  parameters: { $ref?: string; name?: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  responses: Record<string, { $ref?: string; headers?: object; content?: object }>;
  security?: object[];
}

const document = structuredClone(openApiDocument({ serverUrl: 'https://api.example.com' }));
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

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(document));
    expect(result.errors).toBeUndefined();
    expect(result.valid).toBe(true);
    expect(document.openapi).toBe('3.1.0');
  });

  it('refers to nothing that is not there', () => {
    for (const reference of new Set(references(document))) {
      const target = reference
        .split('/')
        .slice(1)
        .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], document);
      expect([reference, typeof target]).toEqual([reference, 'object']);
    }
  });

  it.each(operations.map((spec) => [spec.operationId, spec] as const))('describes %s', (id, spec) => {
    const found = described(spec);
    expect(found.operationId).toBe(id);
    const parameters = found.parameters.map(({ $ref, name }) => name ?? $ref?.split('/').at(-1));
    expect(parameters.includes('Idempotency-Key')).toBe(spec.idempotent === true);
    expect(parameters.includes('If-Match')).toBe(spec.ifMatch !== undefined);
    expect(parameters).toContain('X-Correlation-ID');
    for (const status of errorStatuses(spec)) {
      expect(found.responses[status]?.$ref).toBe(`#/components/responses/Problem${status}`);
    }
    const success = found.responses[spec.success];
    expect(Object.keys(success?.headers ?? {})).toEqual(
      expect.arrayContaining(['X-Request-ID', 'X-Correlation-ID', ...(spec.etag ? ['ETag'] : [])]),
    );
    expect(found.responses[200] !== undefined).toBe([200, 201].includes(spec.success));
  });

  it('has unique operation ids', () => {
    const ids = Object.values(paths).flatMap((item) =>
      Object.values(item).flatMap(({ operationId }) => operationId ?? []),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });

  it('documents /ping as public, with its text answers', () => {
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

  it('has schemas that a validator of JSON Schema 2020-12 can use', () => {
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
