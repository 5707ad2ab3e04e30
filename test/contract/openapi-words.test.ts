// The OpenAPI document as a product: every tag, parameter and number is explained, and its links lead from what was made
// to what can be done with it. That the document is composed so, and valid: openapi.test.ts.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { exampleOf } from '../../src/contract/openapi/examples/examples.ts';
import { LINK_SOURCES } from '../../src/contract/openapi/links.ts';
import { TAGS } from '../../src/contract/openapi/words.ts';
import type { OperationSpec } from '../../src/contract/operations/operation.ts';
import { contractOperations } from '../../src/contract/operations/operations.ts';

interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  [key: string]: unknown;
}
interface Link {
  operationId: string;
  parameters: Record<string, string>;
}
interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  security?: Record<string, string[]>[];
  parameters?: { name?: string; $ref?: string; description?: string }[];
  responses: Record<string, { $ref?: string; links?: Record<string, Link> }>;
}

const document = JSON.parse(
  readFileSync(new URL('../../docs/contract/openapi.json', import.meta.url), 'utf8'),
);
const paths: Record<string, Record<string, Operation>> = document.paths;
const operations: OperationSpec[] = Object.values(contractOperations());
const describedOperations = Object.values(paths).flatMap((item) =>
  Object.entries(item).flatMap(([key, value]) => (key === 'parameters' ? [] : [value])),
);

/** Properties of a schema at any depth, with their names. */
function propertiesOf(schema: unknown): [string, Schema][] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { properties = {} } = schema as Schema;
  const own = typeof properties === 'object' ? Object.entries(properties) : [];
  return [...own, ...Object.values(schema).flatMap(propertiesOf)];
}

const isNumber = ({ type }: Schema) => [type].flat().some((one) => one === 'number' || one === 'integer');

/** The name says what is counted. */
const NAMED_UNIT = /(Seconds|Ms|Count|^count)$/;
/** The fields of rules, which docs/contract/rules.md explains. */
const OF_RULES = [
  ...['minimum', 'maximum', 'maximumAbsoluteDelta', 'maximumPercentageDelta', 'version'],
  ...['consecutiveObservations', 'observations', 'seconds'],
];

describe('the OpenAPI document', () => {
  it('every tag is described, and every operation has one', () => {
    for (const { name, description } of document.tags)
      expect([name, description]).toEqual([name, TAGS[name]]);
    expect(document.tags).toHaveLength(Object.keys(TAGS).length);
    for (const { operationId, tags, summary } of describedOperations) {
      expect([operationId, tags.length, summary.length > 0]).toEqual([operationId, 1, true]);
      expect(TAGS).toHaveProperty([tags[0] ?? '']);
    }
  });

  it('every parameter is described', () => {
    const silent = describedOperations.flatMap(({ operationId, parameters = [] }) =>
      parameters
        .filter(({ $ref, description }) => $ref === undefined && !description)
        .map(({ name }) => `${operationId} ${name}`),
    );
    expect(silent).toEqual([]);
  });

  it('every number says by its name or in words what it counts', () => {
    const silent = Object.entries(document.components.schemas).flatMap(([id, schema]) =>
      propertiesOf(schema)
        .filter(([name, inner]) => isNumber(inner) && !inner.description && !NAMED_UNIT.test(name))
        .filter(([name]) => !OF_RULES.includes(name))
        .map(([name]) => `${id} ${name}`),
    );
    expect([...new Set(silent)]).toEqual([]);
  });

  it('an operation names the schemes that admit its callers', () => {
    const schemes = Object.keys(document.components.securitySchemes);
    expect(document.security).toEqual(schemes.map((name) => ({ [name]: [] })));
    for (const spec of operations) {
      const { security } = paths[spec.path]?.[spec.method.toLowerCase()] ?? {};
      const needsSession = !['read', 'manage'].includes(spec.preset);
      expect([spec.operationId, security]).toEqual([
        spec.operationId,
        needsSession ? [{ sessionToken: [] }] : undefined,
      ]);
    }
    expect(document.components.responses.Problem401.headers).toHaveProperty(['WWW-Authenticate']);
  });
});

describe('the links of the OpenAPI document', () => {
  const links = describedOperations.flatMap(({ operationId, responses }) =>
    Object.values(responses).flatMap(({ links: found = {} }) =>
      Object.values(found).map((link) => ({ from: operationId, ...link })),
    ),
  );

  it('links lead to every operation on a thing but those of the operator', () => {
    const onThings = operations.filter(({ path, preset }) => path.includes('{') && preset !== 'operator');
    const targets = new Set(links.map(({ operationId }) => operationId));
    expect(onThings.map(({ operationId }) => operationId).filter((id) => !targets.has(id))).toEqual([]);
  });

  it('the pointers of the links name the ids of the examples', () => {
    for (const [id, pointers] of Object.entries(LINK_SOURCES)) {
      for (const [name, pointer] of Object.entries(pointers)) {
        const found = pointer
          .split('/')
          .slice(1)
          .reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], exampleOf(id).answer);
        const target = links.find((link) => link.from === id && `path.${name}` in link.parameters);
        expect([id, found]).toEqual([id, exampleOf(target?.operationId ?? '').params?.[name]]);
      }
    }
  });

  it('a link to a change carries the ETag of what was made', () => {
    const change = links.find(
      (link) => link.from === 'createMonitor' && link.operationId === 'updateMonitor',
    );
    expect(change?.parameters).toEqual({
      'path.monitorId': '$response.body#/monitorId',
      'header.If-Match': '$response.header.ETag',
    });
    const read = links.find((link) => link.from === 'createMonitor' && link.operationId === 'getMonitor');
    expect(read?.parameters).toEqual({ 'path.monitorId': '$response.body#/monitorId' });
  });
});
