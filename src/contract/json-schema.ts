// zod -> JSON Schema, in the form that the OpenAPI document and the CRDs start from.
import { z } from 'zod';

export type JsonObject = Record<string, unknown>;

interface OverrideContext {
  jsonSchema: z.core.JSONSchema.BaseSchema;
}

/** `format: date-time` says it: zod's pattern for it is 300 characters that no reader wants. */
function shorten({ jsonSchema }: OverrideContext): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
}

const options = { io: 'input', target: 'draft-2020-12', override: shorten } as const;

/** The JSON Schema of what a caller may send, nothing referred to. */
export function toJsonSchema(schema: z.ZodType): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, options);
  return rest;
}

export type SchemaRegistry = z.core.$ZodRegistry<{ id: string }>;

export function newSchemaRegistry(): SchemaRegistry {
  return z.registry<{ id: string }>();
}

/** Every schema of a registry by its id; schemas refer to one another as OpenAPI components. */
export function toComponentSchemas(registry: SchemaRegistry): Record<string, JsonObject> {
  const { schemas } = z.toJSONSchema(registry, { ...options, uri: componentReference });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...rest }]) => [id, rest satisfies JsonObject]),
  );
}

export function componentReference(id: string): string {
  return `#/components/schemas/${id}`;
}
