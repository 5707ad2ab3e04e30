// The paths of /ping in the OpenAPI document: how beats are published (docs/contract/beats.md).
import { findPlan, planLimitReached } from '../../domain/plan.ts';
import { PROBLEMS } from '../../domain/problem.ts';
import { componentReference, type JsonObject } from '../json-schema.ts';
import { failure, MONITOR, PUBLISH_ID, RUN, success } from './examples/records.ts';

const FORMS = [
  ['', 'success', 'Send a beat'],
  ['/start', 'start', 'Say that a run began'],
  ['/fail', 'fail', 'Say that a run failed'],
  ['/log', 'log', 'Write to the log of a monitor, and change nothing else'],
  ['/{exitStatus}', 'exitStatus', 'Report the exit status of a run: 0 is a success, 1 to 255 a failure'],
] as const;

/** The plan of an installation of one's own. */
const plan = findPlan('scale');
const measurements = plan.measurementsPerObservation;
const tooMany = planLimitReached(plan, { dimension: 'measurements_per_observation', limit: measurements });
const MOVED = 'The deadline was still moved.';

/** What each refusal means, and its text. */
const ERRORS: Record<number, readonly [description: string, text: string]> = {
  400: [
    'The body or the `Idempotency-Key` is not valid. A success or a failure still moves the deadline: the job ran.',
    `The request is not valid. The body is not JSON. Send a JSON object, or text with another content type. ${MOVED}`,
  ],
  403: [
    'A limit of the plan, or the organization is suspended. A success or a failure still moves the deadline.',
    `${PROBLEMS.plan_limit_reached.title}. ${tooMany.options.detail} ${MOVED}`,
  ],
  404: [
    'No monitor has this address, or what stands after it is not known: the answer names what is.',
    'There is no such resource. This address is not known. Use the publishUrl of the monitor.',
  ],
  405: ['Use GET, HEAD or POST.', 'The method is not allowed here. Use GET, HEAD, POST here.'],
  409: [
    `${PROBLEMS.monitor_archived.title} (\`service.monitor_archived\`), which moves nothing, or the \`Idempotency-Key\` belongs to another beat of the last hour (\`service.idempotency_conflict\`): a success or a failure still moves the deadline.`,
    `${PROBLEMS.idempotency_conflict.title}. This Idempotency-Key belongs to another beat: use a new key for each beat. ${MOVED}`,
  ],
  413: [
    'A JSON body is over 16 KiB after decompression. A success or a failure still moves the deadline.',
    `The body is too large. A JSON beat has at most 16384 bytes, also after decompression. ${MOVED}`,
  ],
  415: [
    'The content encoding is neither plain nor gzip. A success or a failure still moves the deadline.',
    `The media type is not supported. Send the body plain, or with Content-Encoding: gzip. ${MOVED}`,
  ],
  429: [
    'More beats in a minute than the plan records. A success or a failure still moves the deadline. Nothing is recorded: a failure opens no incident unless it is sent again.',
    `Too many requests. The plan ${plan.name} records ${plan.beatsPerMinute} beats a minute per monitor. ${MOVED}`,
  ],
  503: [
    'Not stored. Wait for `Retry-After`, then send it again.',
    'The service is temporarily unavailable. The beat could not be made durable in time. Send it again.',
  ],
};

const BEAT = { measurements: { rows: 1042 }, runId: RUN };
const BEAT_ANSWER = {
  accepted: true,
  monitorId: MONITOR,
  sequence: 1,
  receivedAt: success.receivedAt,
  nextDeadlineAt: '2026-11-22T10:05:00.000Z',
  violations: [],
};

const requestId = { $ref: '#/components/headers/X-Request-ID' };
const bodyLimit = {
  description: 'How many characters of a text body are kept: the last ones.',
  schema: { type: 'integer', const: 1024 },
};

/** The path items of /ping. Answers to `HEAD` have no body. */
export function pingPaths(): JsonObject {
  return Object.fromEntries(
    FORMS.map(([suffix, name, summary]) => [`/ping/{publishId}${suffix}`, pathItem(suffix, name, summary)]),
  );
}

function pathItem(suffix: string, name: string, summary: string): JsonObject {
  const call = (method: string) => ({
    operationId: `ping${name[0]?.toUpperCase()}${name.slice(1)}${method === 'Get' ? '' : method}`,
    tags: ['Beats'],
    summary,
    description:
      'The answer comes only after the beat is durable. The address is the only secret: no header is needed.',
    security: [],
    ...(method === 'Post' ? { requestBody } : {}),
    responses: responses(method === 'Head'),
  });
  return {
    parameters: parameters(suffix),
    get: call('Get'),
    head: call('Head'),
    post: call('Post'),
  };
}

function parameters(suffix: string): JsonObject[] {
  const path = (name: string, schema: JsonObject, description: string) => ({
    name,
    in: 'path',
    required: true,
    schema,
    description,
  });
  const exitStatus = path(
    'exitStatus',
    { type: 'integer', minimum: 0, maximum: 255, examples: [1] },
    'The exit status of the run.',
  );
  return [
    path(
      'publishId',
      { type: 'string', format: 'uuid', examples: [PUBLISH_ID] },
      "The last part of the monitor's `publishUrl`.",
    ),
    ...(suffix.includes('exitStatus') ? [exitStatus] : []),
    {
      name: 'rid',
      in: 'query',
      schema: { type: 'string', minLength: 1, maxLength: 128 },
      description: 'Ties the start and the end of one run together. A bad one is ignored.',
    },
    {
      name: 'Idempotency-Key',
      in: 'header',
      schema: { type: 'string', minLength: 1, maxLength: 255 },
      description: 'Makes a beat that is sent again count once. Holds for an hour.',
    },
  ];
}

const requestBody = {
  required: false,
  description:
    'JSON is a beat if it is an object, and one of these is so: it has `measurements`, `observedAt`, `runId` or `exitStatus`; its `status` is `success`, `start`, `fail`, `log` or `cancel`; each of its fields is one of these four, `status` or `message`. So `{"status": "ok"}` is a beat with a wrong status, and refused; `{"status": "ok", "service": "db"}` is none. Other JSON, such as the webhook of Alertmanager or Grafana, and any other type are text: the last 1,024 characters are the message, and the address alone says what kind of beat it is. May be gzip.',
  content: {
    'application/json': {
      schema: {
        anyOf: [
          { $ref: componentReference('Beat') },
          { description: 'JSON of another sender: its last 1,024 characters are the message.' },
        ],
      },
      example: BEAT,
    },
    'text/plain': { schema: { type: 'string' }, example: failure.message },
    '*/*': { schema: {} },
  },
};

const RETRY_AFTER: Record<string, JsonObject> = {
  429: { 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  503: { 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
};

function responses(headOnly: boolean): JsonObject {
  const content = (text: string, json: JsonObject) =>
    headOnly ? {} : { content: { 'text/plain': { schema: { type: 'string', examples: [text] } }, ...json } };
  const success = {
    description: 'The beat is stored. `OK` as text, or an object with `Accept: application/json`.',
    headers: { 'X-Request-ID': requestId, 'Ping-Body-Limit': bodyLimit },
    ...content('OK', {
      'application/json': { schema: { $ref: componentReference('BeatAnswer') }, example: BEAT_ANSWER },
    }),
  };
  const problem = { 'application/problem+json': { schema: { $ref: componentReference('Problem') } } };
  const refusals = Object.entries(ERRORS).map(([status, [description, text]]) => [
    status,
    {
      description: `${description} Text, or a problem body with \`Accept: application/json\`.`,
      headers: {
        'X-Request-ID': requestId,
        'Ping-Body-Limit': bodyLimit,
        ...(RETRY_AFTER[status] ?? {}),
      },
      ...content(text, problem),
    },
  ]);
  return { 200: success, ...Object.fromEntries(refusals) };
}
