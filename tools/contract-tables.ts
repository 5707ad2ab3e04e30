// `npm run generate`: writes docs/contract/operations.md, the tables of every operation and schema, from
// docs/contract/openapi.json and from the tests, each of which says in a comment which operations it holds:
// `// Holds: createMonitor, getMonitor.` With --check it writes nothing, and fails if the page is out of date.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fieldTable, typeOf } from '../src/api/docs/schema-text.ts';
import type { JsonObject } from '../src/contract/json-schema.ts';
import { calls, entriesOf, unnamedParts } from './named-parts.ts';

const ROOT = new URL('../', import.meta.url);
const PAGE = 'docs/contract/operations.md';
const DOCUMENT = 'docs/contract/openapi.json';
/** Folders of tests that hold operations: of the API, of beats, and of the event that the webhook sends. */
const TESTS = ['test/api/', 'test/ingest/', 'test/unit/delivery/'];

interface Reference {
  $ref: string;
}
interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: JsonObject;
}
interface Answer {
  description: string;
  headers?: Record<string, unknown>;
  content?: Record<string, { schema?: JsonObject; examples?: Record<string, Reference> }>;
}
interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  requestBody?: { required?: boolean; content: Record<string, { schema?: JsonObject }> };
  responses: Record<string, Answer | Reference>;
}

/** The part of an OpenAPI document that the tables show. */
export interface TabledDocument {
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, unknown>>;
  webhooks: Record<string, Record<string, unknown>>;
  components: Record<string, Record<string, unknown>> & { schemas: Record<string, JsonObject> };
}

/** Path of a test -> its text. */
export type TestTexts = ReadonlyMap<string, string>;

/** The tests that hold each operation, by its id. Throws for a test that says so and does not call the operation. */
export function holdersOf(tests: TestTexts): Map<string, string[]> {
  const holders = new Map<string, string[]>();
  for (const [path, text] of tests) {
    for (const [, ids = ''] of text.matchAll(/^\/\/ Holds: (.+)\.$/gm)) {
      for (const id of ids.split(', ')) {
        if (!calls(text, id)) throw new Error(`${path} says that it holds ${id}, and does not call it.`);
        holders.set(id, [...(holders.get(id) ?? []), path]);
      }
    }
  }
  return holders;
}

/**
 * The page. Throws for an operation that no test holds, for one that a test holds and nobody has, and for a field, parameter
 * or refusal that no test names.
 */
export function renderTables(document: TabledDocument, tests: TestTexts): string {
  const holders = holdersOf(tests);
  const operations: Entry[] = entriesOf(document).map(({ operation, ...entry }) => ({
    ...entry,
    operation: operation as unknown as Operation,
  }));
  const ids = new Set(operations.map(({ operation }) => operation.operationId));
  const unheld = [...ids].filter((id) => !holders.has(id));
  if (unheld.length > 0) {
    throw new Error(
      `No test holds ${unheld.join(', ')}: say so in one that does, "// Holds: ${unheld[0]}.".`,
    );
  }
  const unnamed = unnamedParts(document, tests);
  if (unnamed.length > 0) throw new Error(unnamed.join('\n'));
  const unknown = [...holders.keys()].filter((id) => !ids.has(id));
  if (unknown.length > 0) throw new Error(`Tests hold operations that nobody has: ${unknown.join(', ')}.`);
  const tagged = document.tags.map(({ name, description }) => {
    const own = operations.filter(({ operation }) => operation.tags[0] === name);
    const sections = own.map((entry) =>
      operationSection(document, entry, holders.get(entry.operation.operationId)),
    );
    return own.length === 0 ? '' : `## ${name}\n\n${description}\n\n${sections.join('\n')}`;
  });
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `### ${name}\n\n${described(schema)}${markdownOf(fieldTable(schema).toString())}\n`,
  );
  return [HEAD, ...tagged.filter(Boolean), `## Schemas\n\n${schemas.join('\n')}`].join('\n');
}

const HEAD = `<!-- Generated from openapi.json and the tests by \`npm run generate\`. Do not edit. -->
# Operations

Every operation, field, bound, header and error of \`/v1\`, of beats and of the webhook, and the test that holds the operation. What all of them have in common stands in [calls.md](calls.md), and these tests go through the table of operations, so that they hold a new one from its first day:

| what | test |
|---|---|
| every answer of every test has a status, headers, a body and, of a refusal, a code that the document has | \`test/support/api-client.ts\` |
| methods, paths, required headers, statuses and presets | \`test/contract/operations.test.ts\` |
| fields and bounds are frozen in openapi.json | \`test/contract/openapi.test.ts\` |
| each bound is taken, and what is beyond it is refused with the path of the field | \`test/contract/bounds.test.ts\` |
| a field, parameter or refusal that no test of an operation with it names is refused, and a field of a problem that no test names | \`tools/named-parts.ts\` |
| the example works as it stands; the refusals have the words of the document | \`test/api/docs-examples.test.ts\` |
| nobody sees or changes anything of another project, organization or jurisdiction | \`test/api/isolation.test.ts\` |
| a write with an \`Idempotency-Key\` happens once | \`test/api/idempotent-operations.test.ts\` |
| a list is read by keyset: no row is skipped or repeated, and a deep page costs what the first one costs | \`test/api/paging.test.ts\` |
| no call that fits the document, or does not, fails or is answered otherwise | \`test/python/schemathesis.test.ts\` |
`;

interface Entry {
  path: string;
  method: string;
  parameters: readonly unknown[];
  operation: Operation;
}

function operationSection(
  document: TabledDocument,
  { path, method, parameters, operation }: Entry,
  tests: string[] = [],
): string {
  const resolved = parameters.map((one) => resolve(document, one as Parameter | Reference));
  const lines = [
    `### ${operation.operationId}`,
    `${placeOf(method, path)}: ${operation.summary}. ${operation.description}`,
    parameterTable(resolved),
    ...bodyLines(operation),
    ...answerLines(document, operation),
    `Held by ${tests.map((test) => `[${basename(test)}](../../${test})`).join(', ')}.`,
  ];
  return `${lines.filter(Boolean).join('\n\n')}\n`;
}

function placeOf(method: string, path: string): string {
  return path.startsWith('/')
    ? `\`${method.toUpperCase()} ${path}\``
    : `\`${method.toUpperCase()}\` webhook \`${path}\``;
}

function parameterTable(parameters: readonly Parameter[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(
    ({ name, in: where, required, schema, description = '' }) =>
      `| \`${name}\` | ${where}${required ? ', required' : ''} | ${inline(typeOf(schema).toString())} | ${cell(description)} |`,
  );
  return ['| parameter | in | type and bounds | |', '|---|---|---|---|', ...rows].join('\n');
}

function bodyLines({ requestBody }: Operation): string[] {
  if (!requestBody) return [];
  const types = Object.entries(requestBody.content).map(([type, { schema = {} }]) =>
    typeAndSchema(type, schema),
  );
  return [`Body${requestBody.required ? '' : ', optional'}: ${types.join(', ')}.`];
}

function answerLines(document: TabledDocument, { responses }: Operation): string[] {
  const rows = Object.entries(responses).map(([status, one]) => {
    const { content = {}, headers = {} } = resolve<Answer>(document, one);
    const types = Object.entries(content).map(([type, { schema = {} }]) => typeAndSchema(type, schema));
    const codes = Object.values(content).flatMap(({ examples = {} }) =>
      Object.values(examples).map((example) => codeOf(document, example)),
    );
    const what = codes.length > 0 ? [...new Set(codes)].join(', ') : types.join(', ') || 'no body';
    return `| ${status} | ${what} | ${Object.keys(headers)
      .map((name) => `\`${name}\``)
      .join(', ')} |`;
  });
  return [['| status | body, or codes | headers |', '|---|---|---|', ...rows].join('\n')];
}

function codeOf(document: TabledDocument, example: Reference): string {
  const { value } = resolve<{ value: { code: string } }>(document, example);
  return `\`${value.code}\``;
}

function typeAndSchema(type: string, schema: JsonObject): string {
  return `\`${type}\` ${inline(typeOf(schema).toString())}`;
}

function described({ description }: JsonObject): string {
  return typeof description === 'string' ? `${description}\n\n` : '';
}

function resolve<T extends object>(document: TabledDocument, value: T | Reference): T {
  if (!('$ref' in value)) return value;
  const [, , kind = '', name = ''] = value.$ref.split('/');
  return document.components[kind]?.[name] as T;
}

/** A table of fields as Markdown, or a type where it has none. */
function markdownOf(text: string): string {
  const rows = [...text.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row = '']) =>
    [...row.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, content = '']) => inline(content)),
  );
  const filled = rows.filter((cells) => cells.length > 0).map((cells) => `| ${cells.join(' | ')} |`);
  if (filled.length === 0) return inline(text);
  return ['| field | type and bounds | |', '|---|---|---|', ...filled].join('\n');
}

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', quot: '"', '#39': "'", amp: '&' };

function inline(text: string): string {
  const plain = text
    .replaceAll(/<a href="#schema-(\w+)">\w+<\/a>/g, (_, name: string) => `[${name}](#${name.toLowerCase()})`)
    .replaceAll(/<\/?code>/g, '`')
    .replaceAll(/<\/?(small|p)[^>]*>/g, '')
    .replaceAll(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => ENTITIES[name] ?? '');
  return cell(plain);
}

function cell(text: string): string {
  return text
    .replaceAll('|', '\\|')
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim();
}

/** The tests that hold operations, with their texts. */
export function readTests(): TestTexts {
  const paths = TESTS.flatMap((folder) => readdirSync(new URL(folder, ROOT)).map((name) => folder + name));
  const tests = paths.filter((path) => path.endsWith('.test.ts'));
  return new Map(tests.sort().map((path) => [path, read(path)]));
}

function read(path: string): string {
  return readFileSync(new URL(path, ROOT), 'utf8');
}

function main(checkOnly: boolean): number {
  const page = renderTables(JSON.parse(read(DOCUMENT)), readTests());
  const current = existsSync(new URL(PAGE, ROOT)) ? read(PAGE) : '';
  if (page === current) return 0;
  if (checkOnly) {
    console.error(`Out of date: ${PAGE}. Run "npm run generate" and commit the result.`);
    return 1;
  }
  writeFileSync(new URL(PAGE, ROOT), page);
  return 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exitCode = main(process.argv.includes('--check'));
}
