// The components of the OpenAPI document: the named schemas, and the headers, parameters and error responses that
// operations refer to.
import type { z } from 'zod';
import { actor, maintenanceWindow } from '../fields/field.ts';
import { correlationIdHeader, HEADER, idempotencyKey, ifMatch, projectHeader } from '../fields/headers.ts';
import {
  componentReference,
  type JsonObject,
  newSchemaRegistry,
  toComponentSchemas,
  toJsonSchema,
} from '../json-schema.ts';
import { beatAnswer, beatBody, beatTest, observation } from '../resources/beat.ts';
import { billing } from '../resources/billing.ts';
import { bindingInput, bindingRecord, bindingResult } from '../resources/binding.ts';
import { callbackEndpoint, callbackIssueResult, signingSecret } from '../resources/callback.ts';
import { callbackChange, monitorChange } from '../resources/change.ts';
import { credential, credentialIssueResult } from '../resources/credential.ts';
import { alertEvent, delivery, deliveryWithAttempts } from '../resources/delivery.ts';
import {
  draft,
  draftHistory,
  draftProposalInput,
  draftReplay,
  replayedIncident,
  replayedRule,
  replayedWindow,
} from '../resources/draft.ts';
import { explanation } from '../resources/explanation.ts';
import { exportRecord } from '../resources/export.ts';
import { incident, incidentChange, openIncident, timelineEntry } from '../resources/incident.ts';
import { maintenanceInput } from '../resources/lifecycle.ts';
import {
  consecutivePolicy,
  measurementRuleFields,
  measurementRulePatch,
  measurementRuleRecord,
  rulePolicy,
  sustainedPolicy,
} from '../resources/measurement-rule.ts';
import { createdMonitor, monitor, monitorStatus, monitorWithObservation } from '../resources/monitor.ts';
import {
  endpointOrigin,
  endpointOriginInput,
  monitorOrigin,
  monitorOriginInput,
} from '../resources/origin.ts';
import { fieldError, problem, problemLimit } from '../resources/problem.ts';
import { project } from '../resources/project.ts';
import { relayConnection } from '../resources/relay.ts';
import { ruleSuggestion } from '../resources/rule-suggestion.ts';
import { series, seriesBucket } from '../resources/series.ts';
import { statusFeed, statusFeedItem } from '../resources/status-feed.ts';
import { type ProblemResponses, problemExamples } from './problem-responses.ts';

/** Generators of clients want a name for each form of a record. */
const [callbackConfigurationChange, callbackLifecycleChange] = callbackChange.options;
const [monitorConfigurationChange, monitorLifecycleChange] = monitorChange.options;

const NAMED = {
  Actor: actor,
  AlertEvent: alertEvent,
  Beat: beatBody,
  BeatAnswer: beatAnswer,
  BeatTest: beatTest,
  Billing: billing,
  Binding: bindingRecord,
  BindingInput: bindingInput,
  BindingResult: bindingResult,
  CallbackChange: callbackChange,
  CallbackConfigurationChange: callbackConfigurationChange,
  CallbackEndpoint: callbackEndpoint,
  CallbackIssueResult: callbackIssueResult,
  CallbackLifecycleChange: callbackLifecycleChange,
  CreatedMonitor: createdMonitor,
  Credential: credential,
  CredentialIssueResult: credentialIssueResult,
  Delivery: delivery,
  DeliveryWithAttempts: deliveryWithAttempts,
  Draft: draft,
  DraftHistory: draftHistory,
  DraftProposalInput: draftProposalInput,
  DraftReplay: draftReplay,
  EndpointOrigin: endpointOrigin,
  EndpointOriginInput: endpointOriginInput,
  Explanation: explanation,
  ExportRecord: exportRecord,
  FieldError: fieldError,
  Incident: incident,
  IncidentChange: incidentChange,
  Maintenance: maintenanceWindow,
  MaintenanceInput: maintenanceInput,
  MeasurementRule: measurementRuleRecord,
  MeasurementRuleInput: measurementRuleFields,
  MeasurementRulePatch: measurementRulePatch,
  Monitor: monitor,
  MonitorChange: monitorChange,
  MonitorConfigurationChange: monitorConfigurationChange,
  MonitorLifecycleChange: monitorLifecycleChange,
  MonitorOrigin: monitorOrigin,
  MonitorOriginInput: monitorOriginInput,
  MonitorStatus: monitorStatus,
  MonitorWithObservation: monitorWithObservation,
  Observation: observation,
  OpenIncident: openIncident,
  Problem: problem,
  ProblemLimit: problemLimit,
  Project: project,
  RelayConnection: relayConnection,
  ReplayedIncident: replayedIncident,
  ReplayedRule: replayedRule,
  ReplayedWindow: replayedWindow,
  RulePolicy: rulePolicy,
  RuleSuggestion: ruleSuggestion,
  ConsecutivePolicy: consecutivePolicy,
  SustainedPolicy: sustainedPolicy,
  Series: series,
  SeriesBucket: seriesBucket,
  SigningSecret: signingSecret,
  StatusFeed: statusFeed,
  StatusFeedItem: statusFeedItem,
  TimelineEntry: timelineEntry,
} satisfies Record<string, z.ZodType>;

const registry = newSchemaRegistry();
for (const [id, schema] of Object.entries(NAMED)) registry.add(schema, { id });

/** A reference to a schema. A schema without a name gets `id` as its name. */
export function referTo(schema: z.ZodType, id: string): JsonObject {
  if (!registry.has(schema)) registry.add(schema, { id });
  return { $ref: componentReference(registry.get(schema)?.id ?? id) };
}

/** Call it after `referTo` has named the schemas of every operation. */
export function documentComponents(problems: ProblemResponses): JsonObject {
  return {
    schemas: toComponentSchemas(registry),
    responses: problems.components(),
    examples: problemExamples(),
    headers: HEADERS,
    parameters: PARAMETERS,
    securitySchemes: SECURITY_SCHEMES,
  };
}

function headerParameter(name: string, schema: z.ZodType, required: boolean): JsonObject {
  const { description, ...rest } = toJsonSchema(schema);
  return { name, in: 'header', required, ...(description ? { description } : {}), schema: rest };
}

const PARAMETERS: JsonObject = {
  [HEADER.correlationId]: headerParameter(HEADER.correlationId, correlationIdHeader, false),
  [HEADER.project]: headerParameter(HEADER.project, projectHeader, false),
  [HEADER.idempotencyKey]: headerParameter(
    HEADER.idempotencyKey,
    idempotencyKey.describe(
      'Chosen by the caller, a new one for each new request. The same request with the same key happens once.',
    ),
    true,
  ),
  [HEADER.ifMatch]: headerParameter(
    HEADER.ifMatch,
    ifMatch.describe('The `ETag` of the last read, with its quotes.'),
    true,
  ),
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
  'WWW-Authenticate': {
    required: true,
    description: 'How to authenticate.',
    schema: { type: 'string', const: 'Bearer' },
  },
  [HEADER.rateLimitPolicy]: {
    description:
      'The limit of calls of the project, a structured field: `q` calls in `w` seconds, a calendar minute (draft-ietf-httpapi-ratelimit-headers). On every answer to a call that counts.',
    schema: { type: 'string', examples: ['"api_requests_per_minute";q=12000;w=60'] },
  },
  [HEADER.rateLimit]: {
    description:
      'What is left of it: `r` calls in the next `t` seconds. Other callers of the project may take them.',
    schema: { type: 'string', examples: ['"api_requests_per_minute";r=11987;t=42'] },
  },
  'Retry-After': { required: true, description: 'Seconds to wait.', schema: { type: 'integer', minimum: 1 } },
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
