// The paths of /ping in the OpenAPI document: how beats are published (docs/contract/beats.md).
import { PROBLEMS } from '../../domain/problem.ts';
import { componentReference, type JsonObject } from '../json-schema.ts';

const FORMS = [
  ['', 'success', 'Send a beat'],
  ['/start', 'start', 'Say that a run began'],
  ['/fail', 'fail', 'Say that a run failed'],
  ['/log', 'log', 'Write to the log of a monitor, and change nothing else'],
  ['/{exitStatus}', 'exitStatus', 'Report the exit status of a run: 0 is a success, 1 to 255 a failure'],
] as const;

const ERRORS: Record<number, string> = {
  400: 'The body or an address part is not valid. The deadline moves all the same: the job ran.',
  403: 'A limit of the plan, or the organization is suspended.',
  404: 'No monitor has this address.',
  405: 'Use GET, HEAD or POST.',
  409: `${PROBLEMS.monitor_archived.title} (\`service.monitor_archived\`), a twin of this beat is on its way, or its \`Idempotency-Key\` belongs to another beat (\`service.idempotency_conflict\`).`,
  413: 'A JSON body is over 16 KiB after decompression. The deadline moves all the same.',
  415: 'The content encoding is neither plain nor gzip.',
  429: "Over the plan's cadence. The deadline moves all the same. Wait for `Retry-After`.",
  503: 'Not stored. Wait for `Retry-After`, then send it again.',
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
    { type: 'integer', minimum: 0, maximum: 255 },
    'The exit status of the run.',
  );
  return [
    path('publishId', { type: 'string', format: 'uuid' }, "The last part of the monitor's `publishUrl`."),
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
    'JSON is a beat if it is an object with `measurements`, `observedAt`, `runId` or `exitStatus`, with a `status` of ours, or with none but fields of a beat. Other JSON, such as the webhook of Alertmanager or Grafana, and any other type are kept as the message of the beat: the last 1,024 characters. May be gzip.',
  content: {
    'application/json': {
      schema: {
        anyOf: [
          { $ref: componentReference('Beat') },
          { description: 'JSON of another sender: its last 1,024 characters are the message.' },
        ],
      },
    },
    'text/plain': { schema: { type: 'string' } },
    '*/*': { schema: {} },
  },
};

function responses(headOnly: boolean): JsonObject {
  const content = (text: string, json: JsonObject) =>
    headOnly ? {} : { content: { 'text/plain': { schema: { type: 'string', examples: [text] } }, ...json } };
  const success = {
    description: 'The beat is stored. `OK` as text, or an object with `Accept: application/json`.',
    headers: { 'X-Request-ID': requestId, 'Ping-Body-Limit': bodyLimit },
    ...content('OK', { 'application/json': { schema: { $ref: componentReference('BeatAnswer') } } }),
  };
  const problem = { 'application/problem+json': { schema: { $ref: componentReference('Problem') } } };
  const refusals = Object.entries(ERRORS).map(([status, description]) => [
    status,
    {
      description: `${description} Text, or a problem body with \`Accept: application/json\`.`,
      headers: {
        'X-Request-ID': requestId,
        'Ping-Body-Limit': bodyLimit,
        ...(status === '429' || status === '503'
          ? { 'Retry-After': { $ref: '#/components/headers/Retry-After' } }
          : {}),
      },
      ...content('There is no such address.', problem),
    },
  ]);
  return { 200: success, ...Object.fromEntries(refusals) };
}
