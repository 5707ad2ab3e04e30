// A client of /v1 for tests. It checks every answer against the OpenAPI document: status, headers, body. So each API
// test is also a test of the contract.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { AnySchemaObject, ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { HEADER } from '../../src/contract/fields/headers.ts';
import { type OperationSpec, operationUrl } from '../../src/contract/operations/operation.ts';
import {
  contractOperations,
  type OperationId,
  type OperationOutput,
  type Operations,
} from '../../src/contract/operations/operations.ts';
import type { Problem } from '../../src/contract/resources/problem.ts';

export interface ApiRequest {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  /** Sent as JSON; `rawBody` is sent unchanged. */
  body?: unknown;
  rawBody?: string | Buffer;
  /** Default for operations that take one: a new key. Null: no key. */
  idempotencyKey?: string | null;
  /** With quotes. */
  ifMatch?: string;
  /** Replace the client's headers; undefined removes one. */
  headers?: Record<string, string | undefined>;
  signal?: AbortSignal;
}

export interface ApiAnswer<Body> {
  status: number;
  headers: Headers;
  /** The body of a success; undefined for a 204. */
  body: Body;
  /** The body of a refusal; else undefined. */
  problem: Problem | undefined;
  etag: string;
}

export interface ApiClient {
  readonly url: string;
  /** Calls an operation. Throws when the answer breaks the contract; a refusal is an answer. */
  call<Id extends OperationId>(id: Id, request?: ApiRequest): Promise<ApiAnswer<OperationOutput<Id>>>;
  /** Calls an operation and throws unless it succeeds. */
  expectSuccess<Id extends OperationId>(
    id: Id,
    request?: ApiRequest,
  ): Promise<ApiAnswer<OperationOutput<Id>>>;
  /** A client with another token, or another `Service-Project` (null: none). */
  as(token: string | undefined, project?: string | null): ApiClient;
}

export interface ClientOptions {
  /** Origin of the API. */
  url: string;
  token?: string;
  /** `Service-Project`. */
  project?: string;
}

const operations: Operations = contractOperations();
const document = JSON.parse(
  readFileSync(new URL('../../docs/contract/openapi.json', import.meta.url), 'utf8'),
);
const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
ajv.addSchema(document, 'openapi');
const validators = new Map<string, ValidateFunction>();

export function createApiClient({ url, token, project }: ClientOptions): ApiClient {
  const client: ApiClient = {
    url,
    async call<Id extends OperationId>(id: Id, request: ApiRequest = {}) {
      const spec: OperationSpec = operations[id];
      const headers = headersOf(spec, request, { token, project });
      const response = await fetch(`${url}${operationUrl(spec, request)}`, {
        method: spec.method,
        headers,
        body: request.rawBody ?? (request.body === undefined ? undefined : JSON.stringify(request.body)),
        signal: request.signal,
      });
      const answer = await readAnswer(response);
      checkAnswer(spec, response, answer);
      if (response.ok && isCounted(headers.authorization)) requireRate(id, response.headers);
      return {
        status: response.status,
        headers: response.headers,
        // `checkAnswer` has compared it with the schema that the type comes from.
        body: answer as OperationOutput<Id>,
        problem: response.ok ? undefined : (answer as Problem),
        etag: response.headers.get('etag') ?? '',
      };
    },
    async expectSuccess(id, request) {
      const answer = await client.call(id, request);
      if (answer.problem) throw new Error(`${id} was refused: ${JSON.stringify(answer.problem)}`);
      return answer;
    },
    as: (other, otherProject = project) =>
      createApiClient({ url, token: other, project: otherProject ?? undefined }),
  };
  return client;
}

function headersOf(
  spec: OperationSpec,
  request: ApiRequest,
  { token, project }: Pick<ClientOptions, 'token' | 'project'>,
): Record<string, string> {
  const key = request.idempotencyKey === undefined && spec.idempotent ? randomUUID() : request.idempotencyKey;
  const all: Record<string, string | undefined> = {
    authorization: token && `Bearer ${token}`,
    'service-project': project,
    'content-type':
      request.body === undefined && request.rawBody === undefined ? undefined : 'application/json',
    'idempotency-key': key ?? undefined,
    'if-match': request.ifMatch,
    ...request.headers,
  };
  return Object.fromEntries(
    Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

async function readAnswer(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === '') return undefined;
  return isLines(response.headers) ? readLines(text) : JSON.parse(text);
}

/** Those of the rate are on no answer to the operator. */
const OPTIONAL_HEADERS = new Set(['ETag', 'Retry-After', 'RateLimit', 'RateLimit-Policy']);
const isLines = (headers: Headers) => headers.get('content-type') === 'application/x-ndjson';

const readLines = (text: string): unknown[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

/** Throws unless the contract of the operation describes this answer. */
function checkAnswer(spec: OperationSpec, { status, headers }: Response, body: unknown): void {
  const where = `${spec.operationId} ${status}`;
  for (const name of ['x-request-id', 'x-correlation-id']) {
    if (!headers.get(name)) throw new Error(`${where}: the header ${name} is missing.`);
  }
  const response = responseOf(spec, status);
  if (!response) throw new Error(`${where} is not in the contract: ${JSON.stringify(body)}`);
  for (const name of Object.keys(response.headers ?? {})) {
    const isOptional = OPTIONAL_HEADERS.has(name);
    if (!isOptional && !headers.has(name)) throw new Error(`${where}: the header ${name} is missing.`);
  }
  if (status < 300 && spec.etag && !headers.get('etag')?.startsWith(`"${spec.etag}-`)) {
    throw new Error(`${where}: the ETag is ${headers.get('etag')}.`);
  }
  if (status >= 400) checkProblem(where, { status, headers, problem: body as Problem, response });
  const [type] = Object.keys(response.content ?? {});
  const sent = headers.get('content-type')?.split(';')[0];
  if (type === undefined) {
    if (body !== undefined) throw new Error(`${where}: the answer must have no body.`);
    return;
  }
  if (sent !== type) throw new Error(`${where}: the media type is ${sent}, not ${type}.`);
  const schema = response.content?.[type]?.schema;
  for (const one of isLines(headers) ? (body as unknown[]) : [body])
    checkBody(where, `${spec.operationId}/${status}`, schema, one);
}

interface ResponseObject {
  headers?: Record<string, unknown>;
  content?: Record<string, { schema: AnySchemaObject; examples?: Record<string, { $ref: string }> }>;
}

interface Refusal {
  status: number;
  headers: Headers;
  problem: Problem;
  response: ResponseObject;
}

/** What a refusal says twice is the same, and its code is one that the document has for the operation. */
function checkProblem(where: string, { status, headers, problem, response }: Refusal): void {
  const { code, retryable, retryAfterSeconds } = problem;
  const fail = (what: string) => {
    throw new Error(`${where}: ${what}: ${JSON.stringify(problem)}`);
  };
  if (problem.status !== status) fail('the status of the body is another one');
  if (problem.type !== `/docs/problems/${code.replace('service.', '')}`)
    fail('the type is not that of the code');
  if (problem.correlationId !== headers.get('x-correlation-id')) fail('the correlation id is another one');
  if (retryAfterSeconds !== undefined && !retryable) fail('it has a wait and is not retryable');
  if (status === 429 || status === 503 || retryAfterSeconds !== undefined) requireRetryAfter(where, headers);
  const described = Object.values(response.content ?? {}).flatMap(({ examples = {} }) =>
    Object.values(examples).map((example) => (dereference(example) as { value: Problem }).value.code),
  );
  if (!described.includes(code)) fail('the document does not have this code here');
}

function responseOf(spec: OperationSpec, status: number): ResponseObject | undefined {
  const paths = document.paths as Record<string, Record<string, { responses: Record<string, unknown> }>>;
  const found = paths[spec.path]?.[spec.method.toLowerCase()]?.responses[status];
  return found === undefined ? undefined : (dereference(found) as ResponseObject);
}

function dereference(value: unknown): unknown {
  const { $ref } = value as { $ref?: string };
  if ($ref === undefined) return value;
  const parts = $ref.replace('#/', '').split('/');
  return parts.reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], document);
}

/** Of a token that was accepted: that of a credential, or of a session with a role as `openApiFixture` signs it. */
function isCounted(authorization: string | undefined): boolean {
  const token = authorization?.replace('Bearer ', '') ?? '';
  if (token.startsWith('bkc_')) return true;
  const [, payload] = token.split('.');
  if (payload === undefined) return false;
  const { role } = JSON.parse(Buffer.from(payload, 'base64url').toString());
  return role === 'viewer' || role === 'member' || role === 'owner';
}

function requireRate(where: string, headers: Headers): void {
  for (const name of [HEADER.rateLimit, HEADER.rateLimitPolicy]) {
    if (!headers.has(name)) throw new Error(`${where}: the header ${name} is missing.`);
  }
}

function requireRetryAfter(where: string, headers: Headers): void {
  if (!/^[1-9]\d*$/.test(headers.get('retry-after') ?? ''))
    throw new Error(`${where}: the header retry-after is missing.`);
}

function checkBody(where: string, name: string, schema: AnySchemaObject | undefined, body: unknown): void {
  if (!schema) return;
  const validate = validators.get(name) ?? ajv.compile(absolute(schema));
  validators.set(name, validate);
  if (validate(body)) return;
  throw new Error(`${where}: the body breaks the contract: ${ajv.errorsText(validate.errors)}
${JSON.stringify(body)}`);
}

/** Turns `#/components/…` into `openapi#/components/…`, the name under which ajv has the document. */
function absolute(schema: AnySchemaObject): AnySchemaObject {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"openapi#/components'));
}
