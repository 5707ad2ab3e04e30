// The OpenAPI 3.1 document in two parts: the schema of each operation's route, and everything that is not a route.
// @fastify/swagger composes the two (src/api/routes/docs.ts). The schemas are those that validate requests.
import { z } from 'zod';
import { HEADER } from '../fields/headers.ts';
import { componentReference, type JsonObject, toJsonSchema } from '../json-schema.ts';
import type { OperationSpec } from '../operations/operation.ts';
import { contractOperations } from '../operations/operations.ts';
import { documentComponents, referTo } from './components.ts';
import { exampleOf } from './examples/examples.ts';
import { alert } from './examples/records.ts';
import { linksOf } from './links.ts';
import { pingPaths } from './ping-paths.ts';
import { COMMON_HEADERS, ProblemResponses, RATE_HEADERS } from './problem-responses.ts';
import { PARAMETERS, TAGS } from './words.ts';

/** With the published floors: the document shows them in a development run too. */
const OPERATIONS: readonly OperationSpec[] = Object.values(contractOperations());

const PROBLEM_RESPONSES = new ProblemResponses(OPERATIONS);

const DESCRIPTION = `Heartbeat monitoring: a monitor expects a beat at a regular interval; a missed deadline opens an incident, and an alert goes to a callback endpoint.

Calls carry \`Authorization: Bearer <token>\`: an API credential, which acts in its own project, or a session token, which names its project in \`Service-Project\`. Lists answer \`items\` and \`nextCursor\`: send it as \`cursor\` for the next page; without it the page is the last.

Writes with an \`Idempotency-Key\` can be sent again with the same key for 24 hours: the stored answer comes again, a 201 as 200, without secrets. Changes take the \`ETag\` of an earlier read in \`If-Match\`. Bodies are JSON of at most 16 KiB, plain or gzip. Unknown fields and query parameters are refused; names, notes and other texts lose the blanks at their ends, then their length counts. Retry only where \`retryable\` is true, after \`Retry-After\`. What a caller may not see is 404.`;

/** A Fastify route schema. It describes the route and validates nothing. */
export interface RouteSchema {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  params?: JsonObject;
  querystring?: JsonObject;
  body?: JsonObject;
  /** Successes only: `completePaths` adds the errors, which are references. */
  response: Record<number, JsonObject>;
}

const ACCESS = {
  read: 'Preset read.',
  manage: 'Preset manage.',
  session: 'Sessions of people alone.',
  owner: 'Owners alone.',
  owner_or_operator: 'Owners and the operator.',
  operator: 'The operator alone.',
};

function makeRouteSchema(spec: OperationSpec): RouteSchema {
  const name = `${spec.operationId[0]?.toUpperCase()}${spec.operationId.slice(1)}`;
  return {
    operationId: spec.operationId,
    tags: [spec.tag],
    summary: spec.summary,
    description: [spec.description, ACCESS[spec.preset]].filter(Boolean).join(' '),
    ...(spec.params ? { params: toJsonSchema(spec.params) } : {}),
    ...(spec.query ? { querystring: toJsonSchema(spec.query) } : {}),
    ...(spec.body ? { body: referTo(spec.body, `${name}Request`) } : {}),
    response: successResponses(spec, name),
  };
}

function successResponses(spec: OperationSpec, name: string): Record<number, JsonObject> {
  const content = contentOf(spec, name);
  const answer = (description: string) => ({ description, ...(content ? { content } : { type: 'null' }) });
  const words = { 200: 'Done.', 201: 'Created.', 202: 'Accepted.', 204: 'Done. No body.' };
  const answers: Record<number, JsonObject> = { [spec.success]: answer(words[spec.success]) };
  if (spec.success === 201) answers[200] = answer('A replay of an earlier call, without secrets.');
  return answers;
}

function contentOf({ response, streams }: OperationSpec, name: string): JsonObject | undefined {
  if (response) return { 'application/json': { schema: referTo(response, `${name}Response`) } };
  if (!streams) return undefined;
  return Object.fromEntries(
    Object.entries(streams).map(([type, schema]) => [type, { schema: inline(schema) }]),
  );
}

/** Texts are written out. */
function inline(schema: z.ZodType): JsonObject {
  return schema instanceof z.ZodString ? toJsonSchema(schema) : referTo(schema, '');
}

const ROUTE_SCHEMAS = new Map(OPERATIONS.map((spec) => [spec.operationId, makeRouteSchema(spec)]));

/** The schema that the route of an operation carries. */
export function routeSchema(id: string): RouteSchema | undefined {
  return ROUTE_SCHEMAS.get(id);
}

/** The document without its paths. */
export function documentFrame(serverUrl: string): JsonObject {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Beatkeeper',
      version: '1',
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    security: [{ apiCredential: [] }, { sessionToken: [] }],
    tags: [...new Set(OPERATIONS.map(({ tag }) => tag)), 'Beats'].map((name) => ({
      name,
      description: TAGS[name],
    })),
    paths: {},
    webhooks: { alert: { post: alertWebhook() } },
    components: documentComponents(PROBLEM_RESPONSES),
  };
}

/** An operation that the plug-in has composed from the schema of a route. */
interface ComposedOperation extends JsonObject {
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: JsonObject }[];
  requestBody?: { content: JsonObject };
  responses: Record<string, { description: string; content?: JsonObject }>;
}

export type ComposedPaths = Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>;

/**
 * Completes composed paths with what the plug-in cannot express (ADR 8), in the order of the contract, then /ping.
 * Throws for an operation without a route.
 */
export function completePaths(composed: ComposedPaths): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const spec of OPERATIONS) {
    const method = spec.method.toLowerCase();
    const operation = composed[spec.path]?.[method] as ComposedOperation | undefined;
    if (!operation) throw new Error(`No route serves ${spec.operationId}.`);
    paths[spec.path] = { ...paths[spec.path], [method]: completeOperation(spec, operation) };
  }
  return { ...paths, ...pingPaths() };
}

function completeOperation(spec: OperationSpec, composed: ComposedOperation): JsonObject {
  const { operationId, tags, summary, description, parameters = [], requestBody, responses } = composed;
  const example = exampleOf(spec.operationId);
  const stated = (where: 'path' | 'query') => {
    const values = (where === 'path' ? example.params : example.query) ?? {};
    return parameters
      .filter((parameter) => parameter.in === where)
      .map(({ schema, in: _, name, required, description = PARAMETERS[name] }) => ({
        name,
        in: where,
        required,
        ...(description ? { description } : {}),
        ...(name in values ? { example: values[name] } : {}),
        schema,
      }));
  };
  const links = linksOf(spec, OPERATIONS);
  return {
    operationId,
    tags,
    summary,
    description,
    parameters: [...stated('path'), ...stated('query'), ...headerParameters(spec)],
    // People and the operator sign in: no credential has these presets.
    ...(spec.preset !== 'read' && spec.preset !== 'manage' ? { security: [{ sessionToken: [] }] } : {}),
    ...(requestBody
      ? {
          requestBody: {
            required: !spec.bodyOptional,
            content: withExample(requestBody.content, example.body),
          },
        }
      : {}),
    responses: {
      ...Object.fromEntries(
        Object.entries(responses).map(([status, { description, content }]) => [
          status,
          {
            description,
            headers: successHeaders(spec),
            ...(content ? { content: withAnswerExamples(content, spec, status) } : {}),
            ...(links ? { links } : {}),
          },
        ]),
      ),
      ...PROBLEM_RESPONSES.referencesOf(spec),
    },
  };
}

/** The replay of a creation shows no secrets. */
function answerExample({ operationId, success }: OperationSpec, status: string): unknown {
  const { answer } = exampleOf(operationId);
  if (Number(status) === success || typeof answer !== 'object' || answer === null) return answer;
  const { signingSecret: _, secret: __, ...open } = answer as JsonObject;
  return 'replayed' in open ? { ...open, replayed: true } : open;
}

function withAnswerExamples(content: JsonObject, spec: OperationSpec, status: string): JsonObject {
  const { streams } = exampleOf(spec.operationId);
  if (!streams) return withExample(content, answerExample(spec, status));
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [
      type,
      { ...(media as JsonObject), example: streams[type] },
    ]),
  );
}

function withExample(content: JsonObject, example: unknown): JsonObject {
  if (example === undefined) return content;
  return Object.fromEntries(
    Object.entries(content).map(([type, media]) => [type, { ...(media as JsonObject), example }]),
  );
}

function successHeaders(spec: OperationSpec): JsonObject {
  const etag = spec.etag ? { ETag: { $ref: '#/components/headers/ETag' } } : {};
  return { ...COMMON_HEADERS, ...RATE_HEADERS, ...etag };
}

function headerParameters(spec: OperationSpec): JsonObject[] {
  const names = [
    HEADER.correlationId,
    ...(spec.project === 'none' ? [] : [HEADER.project]),
    ...(spec.idempotent ? [HEADER.idempotencyKey] : []),
    ...(spec.ifMatch ? [HEADER.ifMatch] : []),
  ];
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }));
}

/** The alert of Standard Webhooks 1.0 (docs/contract/callbacks.md). */
function alertWebhook(): JsonObject {
  const header = (name: string, description: string) => ({
    name,
    in: 'header',
    required: true,
    description,
    schema: { type: 'string' },
  });
  return {
    operationId: 'receiveAlert',
    tags: ['Callback endpoints'],
    summary: 'An alert, as a receiver gets it',
    description: 'At least once: the same `webhook-id` is the same message. Answer with 2xx within 10 s.',
    security: [],
    parameters: [
      header('webhook-id', 'The same on every attempt.'),
      header('webhook-timestamp', 'Seconds since 1970 of this attempt.'),
      header(
        'webhook-signature',
        '`v1,<base64 HMAC-SHA256 of "{id}.{timestamp}.{body}">`; two of them in an overlap.',
      ),
    ],
    requestBody: {
      required: true,
      content: { 'application/json': { schema: { $ref: componentReference('AlertEvent') }, example: alert } },
    },
    responses: {
      '2XX': { description: 'Received.' },
      410: { description: 'Gone: the endpoint is disabled.' },
    },
  };
}
