// The tables of operations: none without a test that holds it, and none that a test only claims to hold; no field,
// parameter or refusal that no test names.
import { describe, expect, it } from 'vitest';
import { holdersOf, renderTables, type TabledDocument } from '../../../tools/contract-tables.ts';

const document: TabledDocument = {
  tags: [{ name: 'Things', description: 'All things.' }],
  paths: {
    '/v1/things/{thingId}': {
      get: {
        operationId: 'getThing',
        tags: ['Things'],
        summary: 'Get a thing',
        description: 'Preset read.',
        parameters: [
          { $ref: '#/components/parameters/thing' },
          { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 200 } },
          { name: 'colour', in: 'query', schema: { type: 'string' } },
        ],
        responses: {
          200: {
            description: 'Done.',
            headers: { ETag: {} },
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
          },
          404: {
            description: 'None.',
            content: {
              'application/problem+json': { examples: { none: { $ref: '#/components/examples/none' } } },
            },
          },
        },
      },
    },
  },
  components: {
    parameters: {
      thing: { name: 'thingId', in: 'path', required: true, schema: { type: 'string', maxLength: 9 } },
    },
    examples: { none: { value: { code: 'service.not_found' } } },
    schemas: {
      Thing: {
        type: 'object',
        required: ['kind'],
        properties: { kind: { enum: ['a', 'b'], description: 'a | b' } },
      },
    },
  },
};
const TEST = "// Holds: getThing.\ncall('getThing', { colour: 'red' }): { kind: 'a' }, service.not_found";
const held = new Map([['test/api/things.test.ts', TEST]]);

describe('the tables of operations', () => {
  it('an operation has its parameters, bounds, headers, errors, fields and the test that holds it', () => {
    const page = renderTables(document, held);
    for (const line of [
      '`GET /v1/things/{thingId}`: Get a thing. Preset read.',
      '| `thingId` | path, required | string, at most 9 characters |  |',
      '| `limit` | query | integer, 1 to 200 |  |',
      '| 200 | `application/json` [Thing](#thing) | `ETag` |',
      '| 404 | `service.not_found` |  |',
      '| `kind` | one of `a`, `b` | a \\| b |',
      'Held by [things.test.ts](../../test/api/things.test.ts).',
    ]) {
      expect(page.split('\n')).toContain(line);
    }
  });

  it('an operation that no test holds is refused, with its name', () => {
    expect(() => renderTables(document, new Map())).toThrow('No test holds getThing');
  });

  it.each([
    ['kind', 'the field kind of Thing'],
    ['colour', 'its parameter colour'],
    ['not_found', 'the refusal none (not_found)'],
  ])('a part of the contract that no test of the operation names is refused: %s', (name, part) => {
    const without = new Map([
      ['test/api/things.test.ts', TEST.replace(name, 'other')],
      ['test/api/others.test.ts', `call('getOther'): ${name}`],
    ]);
    expect(() => renderTables(document, without)).toThrow(`No test that calls getThing names ${part}.`);
    expect(() => renderTables(document, held)).not.toThrow();
  });

  it('a test that holds an operation which nobody has, or which it does not call, is refused', () => {
    const more = new Map([...held, ['test/api/b.test.ts', "// Holds: getB.\ncall('getB')"]]);
    expect(() => renderTables(document, more)).toThrow('nobody has: getB');
    expect(() => holdersOf(new Map([['a', '// Holds: getThing.']]))).toThrow('a says that it holds getThing');
  });
});
