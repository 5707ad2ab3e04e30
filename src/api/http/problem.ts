// Turns every error of the API into a problem body (docs/contract/calls.md). The text of an internal error never reaches
// the caller: its correlation id leads to the log. Answers with 503 are logged once in some seconds, not one by one.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { validationFailed } from '../../contract/operations/request.ts';
import type { Problem } from '../../contract/resources/problem.ts';
import { PROBLEMS, type ProblemCode, ProblemError, remediationOf } from '../../domain/problem.ts';
import { isDatabaseUnavailable } from '../../store/postgres/database-error.ts';
import { OccasionalWarning } from '../../telemetry/occasional-warning.ts';
import { correlationIdOf, nameRequest } from './headers.ts';
import { isDecodable, sizeOf, UNREADABLE } from './request.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Requests answered with 503. */
    unserved: OccasionalWarning;
    /** The parameters of a path that can't be decoded, by name. */
    unreadableIn: (path: string) => string[];
  }
}

export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8';
const DEFAULT_RETRY_SECONDS = 1;

/** The wire body of an error. */
export function problemBody(error: ProblemError, correlationId: string): Problem {
  const { code, options, status, retryable } = error;
  return {
    type: `/docs/problems/${code}`,
    title: PROBLEMS[code].title,
    status,
    detail: options.detail.slice(0, 1024) || PROBLEMS[code].title,
    code: `service.${code}`,
    correlationId,
    retryable,
    retryAfterSeconds: retryAfterOf(error),
    fieldErrors: options.fieldErrors?.slice(0, 32),
    remediation: remediationOf(code),
    limit: options.limit,
    ...options.holder,
    jurisdiction: options.jurisdiction,
  };
}

/** Every 429 and 503 says when to try again (docs/contract/calls.md). */
function retryAfterOf(error: ProblemError): number | undefined {
  const { retryAfterSeconds } = error.options;
  if (retryAfterSeconds !== undefined) return Math.min(86_400, Math.max(1, Math.ceil(retryAfterSeconds)));
  return error.status === 429 || error.status === 503 ? DEFAULT_RETRY_SECONDS : undefined;
}

/** Errors that Fastify throws itself. */
const FRAMEWORK: Record<string, [ProblemCode, string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: [
    'unsupported_media_type',
    'The body is not application/json: send it as application/json.',
  ],
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: [
    'validation_failed',
    'The body does not have the length that Content-Length states: send both again.',
  ],
  FST_ERR_BAD_URL: ['validation_failed', 'The URL has an escape that is not UTF-8: encode it again.'],
  FST_ERR_MAX_PARAM_LENGTH: ['not_found', 'There is no such resource: an identifier is too long.'],
};

/** Any error as a ProblemError. An unknown error becomes the cause of an `internal_error`. `maxBodyBytes`: of the operation. */
export function toProblem(error: unknown, maxBodyBytes?: number): ProblemError {
  if (error instanceof ProblemError) return error;
  const { code = '', statusCode = 500 } = (error ?? {}) as { code?: string; statusCode?: number };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    const detail = `The body is too large: send at most ${sizeOf(maxBodyBytes)}.`;
    return new ProblemError('payload_too_large', { detail, cause: error });
  }
  const known = FRAMEWORK[code];
  if (known) return new ProblemError(known[0], { detail: known[1], cause: error });
  // Fastify gives what breaks a body 400. Its code is that of a connection to the database that breaks.
  if (code === 'ECONNRESET' && statusCode === 400) {
    const detail = 'The body ended before it was complete: send it again.';
    return new ProblemError('validation_failed', { detail, cause: error });
  }
  if (isDatabaseUnavailable(error)) {
    const detail = 'The database does not answer at this moment: try again.';
    return new ProblemError('temporarily_unavailable', { detail, retryAfterSeconds: 1, cause: error });
  }
  if (code.startsWith('FST_') && statusCode >= 400 && statusCode < 500) {
    return new ProblemError('validation_failed', { detail: 'The request could not be read.', cause: error });
  }
  const detail = 'The service failed. Try again; if the error persists, report the correlation ID.';
  return new ProblemError('internal_error', { detail, cause: error });
}

/** The problem of a path of /v1 that the router can't decode names its parameters; any other error as `toProblem`. */
export function toPathProblem(error: unknown, { url, server }: FastifyRequest): ProblemError {
  const isUnreadable = (error as { code?: string }).code === 'FST_ERR_BAD_URL' && url.startsWith('/v1/');
  const names = isUnreadable ? server.unreadableIn(url.split('?')[0] ?? '/') : [];
  if (names.length === 0) return toProblem(error);
  return validationFailed(names.map((path) => ({ ...UNREADABLE, path })));
}

/** Answers with the problem body. Logs a failure of the service with its cause, which the caller does not see. */
export function sendProblem(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  const problem = toProblem(error, request.routeOptions?.config?.maxBodyBytes);
  const correlationId = correlationIdOf(request);
  if (problem.status >= 500) log(request, problem, correlationId);
  nameRequest(request, reply);
  const body = problemBody(problem, correlationId);
  if (body.retryAfterSeconds !== undefined) reply.header('retry-after', body.retryAfterSeconds);
  if (problem.options.allow) reply.header('allow', problem.options.allow.join(', '));
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer');
  return reply.code(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(body));
}

function log(request: FastifyRequest, problem: ProblemError, correlationId: string): void {
  const route = request.routeOptions?.url;
  const fields = { err: problem.options.cause ?? problem, correlationId, requestId: request.id, route };
  if (problem.code === 'internal_error') request.log.error(fields, 'A request failed.');
  else request.server.unserved.record(fields);
}

/** Problem bodies for the errors and unknown routes of the whole application. Call it before any route is registered. */
export function registerProblems(app: FastifyInstance): void {
  const { methodsOf, unreadableIn } = watchRoutes(app);
  app.decorate('unreadableIn', unreadableIn);
  app.decorate('unserved', new OccasionalWarning(app.log, 'A request could not be served.'));
  app.setErrorHandler((error, request, reply) => sendProblem(request, reply, error));
  const refuse = (request: FastifyRequest): ProblemError =>
    unknownRoute(methodsOf(request.url.split('?')[0] ?? '/'));
  app.setNotFoundHandler((request, reply) => sendProblem(request, reply, refuse(request)));
  // Before the body is read: an unknown address is refused as unknown, whatever its body is. Encapsulated scopes have
  // not-found handlers of their own.
  app.addHook('onRequest', (request, reply, done) => {
    if (request.raw.headers.host === undefined && request.raw.httpVersion === '1.1') {
      reply.header('connection', 'close');
      done(hostMissing());
    } else if (request.is404 && request.server.prefix === '') done(refuse(request));
    else done();
  });
}

function unknownRoute(allow: string[]): ProblemError {
  if (allow.length > 0) {
    return new ProblemError('method_not_allowed', { detail: `Use ${allow.join(', ')} here.`, allow });
  }
  return new ProblemError('not_found', {
    detail: 'There is no such address: see /docs for the addresses of the API.',
  });
}

/** RFC 9112 3.2. Node's own refusal would lack the problem body and our headers. */
function hostMissing(): ProblemError {
  return new ProblemError('validation_failed', { detail: 'The header Host is missing: send it.' });
}

interface KnownRoute {
  pattern: RegExp;
  /** In the order of the path. */
  parameters: string[];
  methods: Set<string>;
}

interface KnownRoutes {
  /** The methods of a path, empty for a path without a route. */
  methodsOf: (path: string) => string[];
  unreadableIn: (path: string) => string[];
}

/** Learns the routes as they are registered. */
function watchRoutes(app: FastifyInstance): KnownRoutes {
  const routes = new Map<string, KnownRoute>();
  app.addHook('onRoute', ({ url, method }) => {
    if (url.includes('*')) return; // the preflight route of the CORS plug-in
    const known = routes.get(url) ?? { ...shapeOf(url), methods: new Set() };
    routes.set(url, known);
    for (const one of [method].flat()) known.methods.add(one);
  });
  const find = (path: string) => [...routes.values()].filter(({ pattern }) => pattern.test(path));
  return {
    methodsOf: (path) => [...new Set(find(path).flatMap(({ methods }) => [...methods]))].sort(byName),
    unreadableIn: (path) => {
      const [route] = find(path);
      const values = route?.pattern.exec(path)?.slice(1) ?? [];
      return route?.parameters.filter((_, index) => !isDecodable(values[index] ?? '')) ?? [];
    },
  };
}

function byName(a: string, b: string): number {
  return a < b ? -1 : 1;
}

function shapeOf(url: string): Pick<KnownRoute, 'pattern' | 'parameters'> {
  const parts = url.split('/');
  const isParameter = (part: string) => part.startsWith(':');
  const patterns = parts.map((part) => (isParameter(part) ? '([^/]+)' : part.replaceAll('.', '\\.')));
  return {
    pattern: new RegExp(`^${patterns.join('/')}$`),
    parameters: parts.filter(isParameter).map((part) => part.slice(1)),
  };
}
