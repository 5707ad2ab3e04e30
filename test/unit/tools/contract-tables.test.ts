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
              'application/problem+json': {
                schema: { $ref: '#/components/schemas/Problem' },
                examples: { none: { $ref: '#/components/examples/none' } },
              },
            },
          },
        },
      },
    },
    '/ping/{publishId}': {
      parameters: [{ name: 'rid', in: 'query', schema: { type: 'string' } }],
      get: {
        operationId: 'pingThing',
        tags: ['Things'],
        summary: 'Send a beat',
        description: 'Durable.',
        responses: { 200: { description: 'Stored.' } },
      },
    },
  },
  webhooks: {
    alert: {
      post: {
        operationId: 'receiveAlert',
        tags: ['Things'],
        summary: 'An alert',
        description: 'At least once.',
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Alert' } } },
        },
        responses: { '2XX': { description: 'Received.' } },
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
      Alert: { type: 'object', properties: { news: { type: 'string' } } },
      Problem: { type: 'object', properties: { detail: { type: 'string' } } },
    },
  },
};
const TEST = "// Holds: getThing.\ncall('getThing', { colour: 'red' }): { kind: 'a' }, service.not_found";
const PING = "// Holds: pingThing.\nimport './ping-fixture.ts'; ?rid=1, detail: 'No.'";
const ALERT = "// Holds: receiveAlert.\nimport 'formats/event.ts'; news: 'down'";
const held = new Map([
  ['test/api/things.test.ts', TEST],
  ['test/ingest/ping.test.ts', PING],
  ['test/unit/delivery/event.test.ts', ALERT],
]);

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

  it('beats and the webhook have sections as other operations have, with the parameters of the path', () => {
    const lines = renderTables(document, held).split('\n');
    for (const line of [
      '### pingThing',
      '`GET /ping/{publishId}`: Send a beat. Durable.',
      '| `rid` | query | string |  |',
      'Held by [ping.test.ts](../../test/ingest/ping.test.ts).',
      '### receiveAlert',
      'Body: `application/json` [Alert](#alert).',
      '`POST` webhook `alert`: An alert. At least once.',
      'Held by [event.test.ts](../../test/unit/delivery/event.test.ts).',
    ]) {
      expect(lines).toContain(line);
    }
  });

  it('an operation that no test holds is refused, with its name', () => {
    expect(() => renderTables(document, new Map())).toThrow(
      'No test holds getThing, pingThing, receiveAlert',
    );
  });

  it.each([
    ['kind', 'that calls getThing names the field kind of Thing'],
    ['colour', 'that calls getThing names its parameter colour'],
    ['not_found', 'that calls getThing names the refusal none (not_found)'],
    ['rid', 'that calls pingThing names its parameter rid'],
    ['news', 'that calls receiveAlert names the field news of Alert'],
  ])('a part of the contract that no test of the operation names is refused: %s', (name, sentence) => {
    const without = new Map([...held].map(([path, text]) => [path, text.replace(name, 'other')]));
    without.set('test/api/others.test.ts', `call('getOther'): ${name}`);
    expect(() => renderTables(document, without)).toThrow(`No test ${sentence}.`);
    expect(() => renderTables(document, held)).not.toThrow();
  });

  it('a field of a problem may be named by any test, and is refused where none names it', () => {
    const elsewhere = new Map(held).set('test/ingest/ping.test.ts', PING.replace('detail', 'other'));
    expect(() => renderTables(document, elsewhere)).toThrow('No test names the field detail of Problem.');
    elsewhere.set('test/api/others.test.ts', "call('getOther'): detail");
    expect(() => renderTables(document, elsewhere)).not.toThrow();
  });

  it('a test of the export holds it through the reader of exports', () => {
    const text = "// Holds: exportOrganization.\nimport '../support/export-reader.ts'";
    expect(holdersOf(new Map([['a', text]])).get('exportOrganization')).toEqual(['a']);
  });

  it('a test that holds an operation which nobody has, or which it does not call, is refused', () => {
    const more = new Map([...held, ['test/api/b.test.ts', "// Holds: getB.\ncall('getB')"]]);
    expect(() => renderTables(document, more)).toThrow('nobody has: getB');
    expect(() => holdersOf(new Map([['a', '// Holds: getThing.']]))).toThrow('a says that it holds getThing');
  });
});
