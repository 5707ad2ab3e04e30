// What of the contract no test names: a field of a body or record, a query parameter, a refusal. contract-tables.ts refuses
// it. A test names a part where it calls an operation that has it; whether it asserts the right thing, people read.
type Json = Readonly<Record<string, unknown>>;

interface ContractDocument {
  paths: Readonly<Record<string, Json>>;
  components: Readonly<Record<string, Json>>;
}

/** Path of a test -> its text. */
type TestTexts = ReadonlyMap<string, string>;

interface Operation {
  id: string;
  value: Json;
}

/** Tests that go through the table of operations hold these for each of them. */
const HELD_FOR_ALL = ['limit', 'cursor', 'jurisdiction'];

/** Fields of rules, by which no beat is judged yet (docs/contract/rules.md). */
const NOT_BUILT = new Set([
  'BeatTest.bound',
  'BeatTest.rule',
  'BeatTest.value',
  'Explanation.bound',
  'Explanation.lastValue',
  'Explanation.measurement',
  'Explanation.opensAt',
  'Explanation.violationsInRow',
  'Incident.rule',
  'IncidentChange.rule',
  'Observation.bound',
]);

/** Its records are those that other operations answer: a test of any of them names their fields. */
const REPEATING = ['ExportRecord'];

/** Tests that make no call of it by its id have this part instead. */
const CALLED_BY: Readonly<Record<string, string>> = { exportOrganization: 'export-reader' };

/** A sentence for each part that no test names. */
export function unnamedParts(document: ContractDocument, tests: TestTexts): string[] {
  const operations = operationsOf(document);
  const textsOf = callersOf(tests);
  return [
    ...unnamedFields(document, operations, textsOf),
    ...operations.flatMap((operation) => unnamedParameters(operation, textsOf)),
    ...unnamedRefusals(document, operations, textsOf),
  ];
}

/** The texts of the tests that call one of the operations. Without operations: all. */
type TextsOf = (ids?: readonly string[]) => string[];

function callersOf(tests: TestTexts): TextsOf {
  const all = [...tests.values()];
  const calls = (text: string, id: string) =>
    text.includes(`'${id}'`) || text.includes(CALLED_BY[id] ?? `'${id}'`);
  return (ids) => all.filter((text) => ids === undefined || ids.some((id) => calls(text, id)));
}

function operationsOf({ paths }: ContractDocument): Operation[] {
  return Object.entries(paths)
    .filter(([path]) => path.startsWith('/v1/'))
    .flatMap(([, item]) => Object.entries(item))
    .filter(([method]) => method !== 'parameters')
    .map(([, value]) => ({ id: String((value as Json).operationId), value: value as Json }));
}

function unnamedFields(
  document: ContractDocument,
  operations: readonly Operation[],
  textsOf: TextsOf,
): string[] {
  return [...usersOf(document, operations)].flatMap(([name, ids]) => {
    const texts = textsOf(REPEATING.includes(name) ? undefined : ids);
    const fields = [...new Set(fieldsOf(document.components.schemas?.[name]))];
    return fields
      .filter((field) => !NOT_BUILT.has(`${name}.${field}`) && !isNamed(field, texts))
      .map((field) => `No test that calls ${ids.join(' or ')} names the field ${field} of ${name}.`);
  });
}

/** The schemas that bodies and successes have, each with its operations. */
function usersOf(document: ContractDocument, operations: readonly Operation[]): Map<string, string[]> {
  const users = new Map<string, string[]>();
  for (const { id, value } of operations) {
    const successes = Object.entries(value.responses as Json).filter(([status]) => Number(status) < 300);
    const names = new Set<string>();
    collectSchemas(document, [value.requestBody, successes], names);
    for (const name of names) users.set(name, [...(users.get(name) ?? []), id]);
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

function unnamedParameters({ id, value }: Operation, textsOf: TextsOf): string[] {
  const parameters = (value.parameters ?? []) as { name?: string; in?: string }[];
  return parameters
    .flatMap(({ name, in: where }) => (where === 'query' && name !== undefined ? [name] : []))
    .filter((name) => !HELD_FOR_ALL.includes(name) && !isNamed(name, textsOf([id])))
    .map((name) => `No test that calls ${id} names its parameter ${name}.`);
}

/** A refusal is named by its example (`test/api/docs-examples.test.ts`), or by its code where a test calls the operation. */
function unnamedRefusals(
  document: ContractDocument,
  operations: readonly Operation[],
  textsOf: TextsOf,
): string[] {
  const callers = new Map<string, string[]>();
  for (const { id, value } of operations) {
    for (const name of refusalsOf(document, value)) callers.set(name, [...(callers.get(name) ?? []), id]);
  }
  return [...callers].flatMap(([name, ids]) => {
    const code = codeOf(document.components.examples?.[name]);
    if (isNamed(name, textsOf()) || isNamed(code, textsOf(ids))) return [];
    return [`No test that calls ${ids.join(' or ')} names the refusal ${name} (${code}).`];
  });
}

/** The names of the examples of an operation's refusals. */
function refusalsOf(document: ContractDocument, { responses }: Json): string[] {
  const refusals = Object.entries(responses as Json).filter(([status]) => Number(status) >= 400);
  return refusals.flatMap(([, response]) => {
    const { $ref = '' } = response as { $ref?: string };
    const { content = {} } = (document.components.responses?.[$ref.split('/').at(-1) ?? ''] ?? response) as {
      content?: Record<string, { examples?: Json }>;
    };
    return Object.values(content).flatMap(({ examples = {} }) => Object.keys(examples));
  });
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
