// Turns a JSON Schema into the structural schema of a CustomResourceDefinition. Throws for a schema that has no such form,
// rather than drop a check.
import type { JsonObject } from '../json-schema.ts';

/** A check in CEL. `message` says in a sentence what to do. */
export interface CelRule {
  rule: string;
  message: string;
}

/** Keys for `.meta()`: CEL rules of a node, and the sentence that replaces the message of a pattern. */
export const VALIDATIONS = 'x-kubernetes-validations';
export const SENTENCE = 'x-sentence';

/** Dropped keywords: pruning implies them, or a CEL rule of the node expresses them. */
const DROPPED = new Set(['propertyNames', SENTENCE]);
const REFUSED = ['$ref', 'oneOf', 'anyOf', 'allOf', 'not', 'exclusiveMinimum', 'exclusiveMaximum'];

export function toStructural(node: JsonObject): JsonObject {
  const refused = REFUSED.find((key) => key in node);
  if (refused) throw new Error(`A structural schema has no ${refused}: ${JSON.stringify(node)}`);
  const structural: JsonObject = {};
  for (const [key, value] of Object.entries(node)) {
    if (DROPPED.has(key)) continue;
    if (key === 'properties') structural[key] = mapValues(value as Record<string, JsonObject>, toStructural);
    else if (key === 'items') structural[key] = toStructural(value as JsonObject);
    else if (key === 'additionalProperties') {
      if (value) structural[key] = toStructural(value as JsonObject);
    } else if (key === 'const') structural.enum = [value];
    else structural[key] = value;
  }
  return withSentence(withIntegerFormat(structural), node[SENTENCE]);
}

/** The API server needs the format of integers beyond 32 bits. */
function withIntegerFormat(node: JsonObject): JsonObject {
  return node.type === 'integer' ? { ...node, format: 'int64' } : node;
}

/** The message of a pattern would be the pattern itself; as a CEL rule it says what to do. */
function withSentence(node: JsonObject, sentence: unknown): JsonObject {
  const { pattern, ...rest } = node;
  if (typeof sentence !== 'string' || typeof pattern !== 'string') return node;
  const rules = (rest[VALIDATIONS] ?? []) as CelRule[];
  const rule = `self.matches(${celString(pattern)})`;
  return { ...rest, [VALIDATIONS]: [{ rule, message: sentence }, ...rules] };
}

/** A raw CEL string, in which backslashes are literal. */
export function celString(text: string): string {
  if (text.includes("'")) throw new Error(`A raw CEL string has no quote: ${text}`);
  return `r'${text}'`;
}

function mapValues<Value, Result>(object: Record<string, Value>, map: (value: Value) => Result) {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]));
}
