// The OpenAPI 3.1 document, built from the operations: the same schemas that validate requests.
// It builds a plain object and serves nothing.
import type { z } from 'zod';
import { PROBLEMS, type ProblemCode } from '../../domain/problem.ts';
import { actor, maintenanceWindow } from '../fields/field.ts';
import { correlationIdHeader, HEADER, idempotencyKey, ifMatch, projectHeader } from '../fields/headers.ts';
import {
  componentReference,
  type JsonObject,
  newSchemaRegistry,
  type SchemaRegistry,
  toComponentSchemas,
  toJsonSchema,
} from '../json-schema.ts';
import { errorStatuses, type OperationSpec } from '../operations/operation.ts';
import { contractOperations } from '../operations/operations.ts';
import { alertEvent } from '../resources/alert-event.ts';
import { beatAnswer, beatBody } from '../resources/beat.ts';
import { bindingInput, bindingRecord, bindingResult } from '../resources/binding.ts';
import { callbackEndpoint, callbackIssueResult, signingSecret } from '../resources/callback.ts';
import { monitorChange } from '../resources/change.ts';
import { credential, credentialIssueResult } from '../resources/credential.ts';
import { delivery, deliveryWithAttempts } from '../resources/delivery.ts';
import { incident, openIncident, timelineEntry } from '../resources/incident.ts';
import { maintenanceInput } from '../resources/lifecycle.ts';
import { measurementRulePatch, measurementRuleRecord, rulePolicy } from '../resources/measurement-rule.ts';
import { createdMonitor, monitor, monitorStatus, monitorWithObservation } from '../resources/monitor.ts';
import { observation } from '../resources/observation.ts';
import { fieldError, problem, problemLimit } from '../resources/problem.ts';
import { project } from '../resources/project.ts';
import { statusFeed, statusFeedItem } from '../resources/status-feed.ts';
import { pingPaths } from './ping-paths.ts';

const NAMED = {
  Actor: actor,
  AlertEvent: alertEvent,
  Beat: beatBody,
  BeatAnswer: beatAnswer,
  Binding: bindingRecord,
  BindingInput: bindingInput,
  BindingResult: bindingResult,
  CallbackEndpoint: callbackEndpoint,
  CallbackIssueResult: callbackIssueResult,
  CreatedMonitor: createdMonitor,
  Credential: credential,
  CredentialIssueResult: credentialIssueResult,
  Delivery: delivery,
  DeliveryWithAttempts: deliveryWithAttempts,
  FieldError: fieldError,
  Incident: incident,
  Maintenance: maintenanceWindow,
  MaintenanceInput: maintenanceInput,
  MeasurementRule: measurementRuleRecord,
  MeasurementRulePatch: measurementRulePatch,
  Monitor: monitor,
  MonitorChange: monitorChange,
  MonitorStatus: monitorStatus,
  MonitorWithObservation: monitorWithObservation,
  Observation: observation,
  OpenIncident: openIncident,
  Problem: problem,
  ProblemLimit: problemLimit,
  Project: project,
  RulePolicy: rulePolicy,
  SigningSecret: signingSecret,
  StatusFeed: statusFeed,
  StatusFeedItem: statusFeedItem,
  TimelineEntry: timelineEntry,
} satisfies Record<string, z.ZodType>;

const DESCRIPTION = `Heartbeat monitoring: a monitor expects a beat at a regular interval; a missed deadline opens an incident, and an alert goes to a callback endpoint.

Calls carry \`Authorization: Bearer <token>\`: an API credential, which acts in its own project, or a session token, which names its project in \`Service-Project\`. Lists answer \`items\` and \`nextCursor\`: send it as \`cursor\` for the next page; without it the page is the last.

Writes with an \`Idempotency-Key\` can be sent again with the same key for 24 hours: the stored answer comes again, a 201 as 200, without secrets. Changes take the \`ETag\` of an earlier read in \`If-Match\`. Bodies are JSON of at most 16 KiB, plain or gzip. Unknown fields and query parameters are refused; names, notes and other texts lose the blanks at their ends, then their length counts. Retry only where \`retryable\` is true, after \`Retry-After\`. What a caller may not see is 404.`;

export interface OpenApiOptions {
  /** Base address of the API. Default: the address that the document came from. */
  serverUrl?: string;
  version?: string;
}

/** The document of GET /v1/openapi.json. It shows the published floors, also in a development run. */
export function openApiDocument({ serverUrl = '/', version = '1' }: OpenApiOptions = {}): JsonObject {
  const registry = newSchemaRegistry();
  for (const [id, schema] of Object.entries(NAMED)) registry.add(schema, { id });
  const operations: OperationSpec[] = Object.values(contractOperations());
  const paths: Record<string, JsonObject> = {};
  for (const spec of operations) {
    paths[spec.path] = { ...paths[spec.path], [spec.method.toLowerCase()]: operationObject(spec, registry) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Beatkeeper',
      version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: serverUrl }],
    security: [{ apiCredential: [] }, { sessionToken: [] }],
    tags: [...new Set(operations.map(({ tag }) => tag)), 'Beats'].map((name) => ({ name })),
    paths: { ...paths, ...pingPaths() },
    webhooks: { alert: { post: alertWebhook() } },
    components: {
      schemas: toComponentSchemas(registry),
      responses: problemResponses(operations),
      headers: HEADERS,
      parameters: PARAMETERS,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function operationObject(spec: OperationSpec, registry: SchemaRegistry): JsonObject {
  const name = `${spec.operationId[0]?.toUpperCase()}${spec.operationId.slice(1)}`;
  const access = {
    read: 'Preset read.',
    manage: 'Preset manage.',
    owner: 'Owners alone.',
    owner_or_operator: 'Owners and the operator.',
  };
  return {
    operationId: spec.operationId,
    tags: [spec.tag],
    summary: spec.summary,
    description: [spec.description, access[spec.preset]].filter(Boolean).join(' '),
    parameters: [...fields(spec.params, 'path'), ...fields(spec.query, 'query'), ...headerParameters(spec)],
    ...(spec.body
      ? {
          requestBody: {
            required: !spec.bodyOptional,
            content: { 'application/json': { schema: named(registry, spec.body, `${name}Request`) } },
          },
        }
      : {}),
    responses: {
      ...successResponses(spec, registry, name),
      ...Object.fromEntries(
        errorStatuses(spec).map((status) => [status, { $ref: `#/components/responses/Problem${status}` }]),
      ),
    },
  };
}

/** A reference to a schema, which gets `id` unless it has a name already. */
function named(registry: SchemaRegistry, schema: z.ZodType, id: string): JsonObject {
  if (!registry.has(schema)) registry.add(schema, { id });
  return { $ref: componentReference(registry.get(schema)?.id ?? id) };
}

function successResponses(spec: OperationSpec, registry: SchemaRegistry, name: string): JsonObject {
  const answer = (description: string) => ({
    description,
    headers: {
      ...COMMON_HEADERS,
      ...(spec.etag ? { ETag: { $ref: '#/components/headers/ETag' } } : {}),
    },
    ...(spec.response
      ? { content: { 'application/json': { schema: named(registry, spec.response, `${name}Response`) } } }
      : {}),
  });
  const replay = spec.success === 201 ? { 200: answer('A replay of an earlier call, without secrets.') } : {};
  const words = { 200: 'Done.', 201: 'Created.', 202: 'Accepted.', 204: 'Done. No body.' };
  return { ...replay, [spec.success]: answer(words[spec.success]) };
}

function fields(schema: z.ZodObject | undefined, where: 'path' | 'query'): JsonObject[] {
  if (!schema) return [];
  const { properties = {}, required = [] } = toJsonSchema(schema) as {
    properties?: Record<string, JsonObject>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: where,
    required: where === 'path' || required.includes(name),
    ...(description ? { description } : {}),
    schema: rest,
  }));
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

function headerParameter(name: string, schema: z.ZodType, required: boolean): JsonObject {
  const { description, ...rest } = toJsonSchema(schema);
  return { name, in: 'header', required, ...(description ? { description } : {}), schema: rest };
}

const PARAMETERS: JsonObject = {
  [HEADER.correlationId]: headerParameter(HEADER.correlationId, correlationIdHeader, false),
  [HEADER.project]: headerParameter(HEADER.project, projectHeader, false),
  [HEADER.idempotencyKey]: headerParameter(HEADER.idempotencyKey, idempotencyKey, true),
  [HEADER.ifMatch]: headerParameter(HEADER.ifMatch, ifMatch, true),
};

const idSchema = toJsonSchema(correlationIdHeader);
const HEADERS: JsonObject = {
  [HEADER.requestId]: { required: true, description: 'Names this request.', schema: idSchema },
  [HEADER.correlationId]: {
    required: true,
    description: 'As sent, or made by the service.',
    schema: idSchema,
  },
  ETag: {
    description: 'Send it in `If-Match` to change what was read.',
    schema: { type: 'string', maxLength: 130 },
  },
  'Retry-After': { required: true, description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
};

const COMMON_HEADERS: JsonObject = {
  [HEADER.requestId]: { $ref: `#/components/headers/${HEADER.requestId}` },
  [HEADER.correlationId]: { $ref: `#/components/headers/${HEADER.correlationId}` },
};

const SECURITY_SCHEMES: JsonObject = {
  apiCredential: {
    type: 'http',
    scheme: 'bearer',
    description: 'An API credential, `bkc_…`. It acts in its own project.',
  },
  sessionToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'A token of a configured issuer. It names its project in `Service-Project`.',
  },
};

/** One response a status, with every code that it may carry. */
function problemResponses(operations: readonly OperationSpec[]): JsonObject {
  const statuses = new Set(operations.flatMap(errorStatuses));
  return Object.fromEntries(
    [...statuses].sort().map((status) => [`Problem${status}`, problemResponse(status)]),
  );
}

function problemResponse(status: number): JsonObject {
  const codes = (Object.keys(PROBLEMS) as ProblemCode[]).filter((code) => PROBLEMS[code].status === status);
  const waits = status === 429 || status === 503;
  return {
    description: codes.map((code) => `\`service.${code}\`: ${PROBLEMS[code].title}.`).join(' '),
    headers: {
      ...COMMON_HEADERS,
      ...(waits ? { 'Retry-After': { $ref: '#/components/headers/Retry-After' } } : {}),
    },
    content: { 'application/problem+json': { schema: { $ref: componentReference('Problem') } } },
  };
}

/** Standard Webhooks 1.0 (docs/contract/callbacks.md). */
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
      content: { 'application/json': { schema: { $ref: componentReference('AlertEvent') } } },
    },
    responses: {
      '2XX': { description: 'Received.' },
      410: { description: 'Gone: the endpoint is disabled.' },
    },
  };
}
