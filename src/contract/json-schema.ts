// Turns zod schemas into JSON Schema, the base of the OpenAPI document and the CRDs.
import { z } from 'zod';

export type JsonObject = Record<string, unknown>;

interface OverrideContext {
  jsonSchema: z.core.JSONSchema.BaseSchema;
}

/** Drops zod's pattern for times: `format: date-time` says the same, without 300 characters. */
function shorten({ jsonSchema }: OverrideContext): void {
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern;
}

const options = { io: 'input', target: 'draft-2020-12', override: shorten } as const;

/** The JSON Schema of what a caller may send, without references. */
export function toJsonSchema(schema: z.ZodType): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, options);
  return rest;
}

export type SchemaRegistry = z.core.$ZodRegistry<{ id: string }>;

export function newSchemaRegistry(): SchemaRegistry {
  return z.registry<{ id: string }>();
}

/** Every schema of a registry by its id. The schemas refer to one another as OpenAPI components. */
export function toComponentSchemas(registry: SchemaRegistry): Record<string, JsonObject> {
  const { schemas } = z.toJSONSchema(registry, { ...options, uri: componentReference });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $schema: _, $id: __, ...rest }]) => [id, rest satisfies JsonObject]),
  );
}

export function componentReference(id: string): string {
  return `#/components/schemas/${id}`;
}
