// Headers of requests and answers: X-Request-ID and X-Correlation-ID on every answer, and what `Accept` admits
// (docs/contract/calls.md).
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { correlationId as schema } from '../../contract/fields/field.ts';
import { HEADER } from '../../contract/fields/headers.ts';
import { invalidField } from '../../domain/problem.ts';

/** The correlation id that the caller sent, where it is valid; else the id of the request. */
export function correlationIdOf(request: FastifyRequest): string {
  const sent = request.headers['x-correlation-id'];
  return typeof sent === 'string' && schema.safeParse(sent).success ? sent : request.id;
}

/** Throws `validation_failed` for a correlation id that cannot be echoed. */
export function requireValidCorrelationId(request: FastifyRequest): void {
  const sent = request.headers['x-correlation-id'];
  if (sent === undefined) return;
  const [issue] = schema.safeParse(sent).error?.issues ?? [];
  if (issue) throw invalidField(HEADER.correlationId, issue.message);
}

export function nameRequest(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id).header('x-correlation-id', correlationIdOf(request));
}

export function registerCorrelation(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    nameRequest(request, reply);
    done();
  });
}

/** Node reads header bytes as Latin-1, callers write UTF-8. Bytes that are not UTF-8 stay as they are. */
export function decodeHeader(value: string): string {
  const text = Buffer.from(value, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? value : text;
}

/** Whether an `Accept` header admits a media type (RFC 9110 12.5.1). A request without one accepts everything. */
export const accepts = (header: string | undefined, type: string): boolean => weightOf(header, type) > 0;

/** Of some media types the one that an `Accept` header prefers, and of equals the first one. Undefined: it admits none. */
export function preferredOf<Type extends string>(
  header: string | undefined,
  types: readonly Type[],
): Type | undefined {
  const most = Math.max(...types.map((type) => weightOf(header, type)));
  return most > 0 ? types.find((type) => weightOf(header, type) === most) : undefined;
}

function weightOf(header: string | undefined, type: string): number {
  if (header === undefined || header.trim() === '') return 1;
  const [main] = type.split('/');
  let best = { specificity: -1, quality: 0 };
  for (const range of header.split(',')) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const specificity = [`*/*`, `${main}/*`, type].indexOf(name);
    if (specificity > best.specificity) best = { specificity, quality: qualityOf(parameters) };
  }
  return best.quality;
}

function qualityOf(parameters: readonly string[]): number {
  const text = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  const quality = text === undefined ? 1 : Number(text);
  return Number.isFinite(quality) ? quality : 0;
}
