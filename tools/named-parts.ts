// What of the contract no test names: a field of a body, record or problem, a query parameter, a refusal. contract-tables.ts
// refuses it. A test names a part where it calls an operation that has it; whether it asserts the right thing, people read.
type Json = Readonly<Record<string, unknown>>;

interface ContractDocument {
  paths: Readonly<Record<string, Json>>;
  webhooks: Readonly<Record<string, Json>>;
  components: Readonly<Record<string, Json>>;
}

/** Path of a test -> its text. */
type TestTexts = ReadonlyMap<string, string>;

/** A method of a path, or of a webhook, which has a name in place of a path. */
interface Entry {
  path: string;
  method: string;
  /** Those of the path as well. */
  parameters: readonly unknown[];
  operation: Json;
}

/** Tests that go through the table of operations hold these for each of them. */
const HELD_FOR_ALL = ['limit', 'cursor', 'jurisdiction'];

/** Its records are those that other operations answer: a test of any of them names their fields. */
const REPEATING = ['ExportRecord'];

/** What tests have that do not call these operations by their ids. */
const CALLED_BY: readonly (readonly [RegExp, string])[] = [
  [/^exportOrganization$/, 'export-reader'],
  [/^ping/, 'ping-fixture'],
  [/^receiveAlert$/, 'formats/event.ts'],
];

/** Whether a test calls an operation. */
export function calls(text: string, id: string): boolean {
  const parts = CALLED_BY.flatMap(([ids, part]) => (ids.test(id) ? [part] : []));
  return [`'${id}'`, ...parts].some((part) => text.includes(part));
}

/** Every operation of the document: of `/v1`, of beats, and of the webhook. */
export function entriesOf({ paths, webhooks }: ContractDocument): Entry[] {
  return [...Object.entries(paths), ...Object.entries(webhooks)].flatMap(([path, item]) => {
    const { parameters: shared = [], ...methods } = item as { parameters?: unknown[] };
    return Object.entries(methods as Record<string, Json>).map(([method, operation]) => ({
      path,
      method,
      parameters: [...shared, ...((operation.parameters ?? []) as unknown[])],
      operation,
    }));
  });
}

/** A sentence for each part that no test names. */
export function unnamedParts(document: ContractDocument, tests: TestTexts): string[] {
  const entries = entriesOf(document);
  const textsOf = callersOf(tests);
  return [
    ...unnamedFields(document, entries, textsOf),
    ...unnamedProblemFields(document, entries, textsOf),
    ...entries.flatMap((entry) => unnamedParameters(entry, textsOf)),
    ...unnamedRefusals(document, entries, textsOf),
  ];
}

/** The texts of the tests that call one of the operations. Without operations: all. */
type TextsOf = (ids?: readonly string[]) => string[];

function callersOf(tests: TestTexts): TextsOf {
  const all = [...tests.values()];
  return (ids) => all.filter((text) => ids === undefined || ids.some((id) => calls(text, id)));
}

function idOf({ operation }: Entry): string {
  return String(operation.operationId);
}

function unnamedFields(document: ContractDocument, entries: readonly Entry[], textsOf: TextsOf): string[] {
  return [...usersOf(document, entries)].flatMap(([name, ids]) => {
    const texts = textsOf(REPEATING.includes(name) ? undefined : ids);
    return fieldsWithout(texts, document, name).map(
      (field) => `No test that calls ${ids.join(' or ')} names the field ${field} of ${name}.`,
    );
  });
}

/** Any operation may refuse: a test of any of them names the fields of a problem. */
function unnamedProblemFields(
  document: ContractDocument,
  entries: readonly Entry[],
  textsOf: TextsOf,
): string[] {
  const names = new Set<string>();
  for (const { operation } of entries) collectSchemas(document, refusalsOf(document, operation), names);
  return [...names].flatMap((name) =>
    fieldsWithout(textsOf(), document, name).map((field) => `No test names the field ${field} of ${name}.`),
  );
}

/** The fields of a schema that none of the texts names. */
function fieldsWithout(texts: readonly string[], document: ContractDocument, name: string): string[] {
  const fields = new Set(fieldsOf(document.components.schemas?.[name]));
  return [...fields].filter((field) => !isNamed(field, texts));
}

/** The schemas that bodies and successes have, each with its operations. */
function usersOf(document: ContractDocument, entries: readonly Entry[]): Map<string, string[]> {
  const users = new Map<string, string[]>();
  for (const entry of entries) {
    const { requestBody, responses } = entry.operation;
    const successes = Object.entries(responses as Json).filter(([status]) => Number(status) < 300);
    const names = new Set<string>();
    collectSchemas(document, [requestBody, successes], names);
    for (const name of names) users.set(name, [...(users.get(name) ?? []), idOf(entry)]);
  }
  return users;
}

const SCHEMA = '#/components/schemas/';

function collectSchemas(document: ContractDocument, value: unknown, into: Set<string>): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'example' || key === 'examples') continue;
    if (key !== '$ref' || typeof inner !== 'string') collectSchemas(document, inner, into);
    else if (inner.startsWith(SCHEMA) && !into.has(inner.slice(SCHEMA.length))) {
      into.add(inner.slice(SCHEMA.length));
      collectSchemas(document, document.components.schemas?.[inner.slice(SCHEMA.length)], into);
    }
  }
}

/** The names of the fields of a schema at any depth, but not of those that it refers to. */
function fieldsOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([key, inner]) => {
    if (key !== 'properties') return fieldsOf(inner);
    return Object.entries(inner as Json).flatMap(([name, field]) => [name, ...fieldsOf(field)]);
  });
}

function unnamedParameters(entry: Entry, textsOf: TextsOf): string[] {
  const id = idOf(entry);
  const parameters = entry.parameters as { name?: string; in?: string }[];
  return parameters
    .flatMap(({ name, in: where }) => (where === 'query' && name !== undefined ? [name] : []))
    .filter((name) => !HELD_FOR_ALL.includes(name) && !isNamed(name, textsOf([id])))
    .map((name) => `No test that calls ${id} names its parameter ${name}.`);
}

/** A refusal is named by its example (`test/api/docs-examples.test.ts`), or by its code where a test calls the operation. */
function unnamedRefusals(document: ContractDocument, entries: readonly Entry[], textsOf: TextsOf): string[] {
  const callers = new Map<string, string[]>();
  for (const entry of entries) {
    for (const name of examplesOf(refusalsOf(document, entry.operation)))
      callers.set(name, [...(callers.get(name) ?? []), idOf(entry)]);
  }
  return [...callers].flatMap(([name, ids]) => {
    const code = codeOf(document.components.examples?.[name]);
    if (isNamed(name, textsOf()) || isNamed(code, textsOf(ids))) return [];
    return [`No test that calls ${ids.join(' or ')} names the refusal ${name} (${code}).`];
  });
}

/** The bodies of an operation's refusals, by media type. */
function refusalsOf(document: ContractDocument, { responses }: Json): Record<string, { examples?: Json }>[] {
  const refusals = Object.entries(responses as Json).filter(([status]) => Number(status) >= 400);
  return refusals.map(([, response]) => {
    const { $ref = '' } = response as { $ref?: string };
    const { content = {} } = (document.components.responses?.[$ref.split('/').at(-1) ?? ''] ?? response) as {
      content?: Record<string, { examples?: Json }>;
    };
    return content;
  });
}

/** The names of the examples of refusals. */
function examplesOf(refusals: readonly Record<string, { examples?: Json }>[]): string[] {
  const bodies = refusals.flatMap((content) => Object.values(content));
  return bodies.flatMap(({ examples = {} }) => Object.keys(examples));
}

/** Without the prefix. */
function codeOf(example: unknown): string {
  const { value } = (example ?? {}) as { value?: { code?: string } };
  return (value?.code ?? '').replace('service.', '');
}

function isNamed(name: string, texts: readonly string[]): boolean {
  const word = new RegExp(`\\b${name}\\b`);
  return texts.some((text) => word.test(text));
}
