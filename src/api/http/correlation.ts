// X-Request-ID and X-Correlation-ID on every answer (docs/contract/calls.md).
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { correlationId as schema } from '../../contract/fields/field.ts';
import { HEADER } from '../../contract/fields/headers.ts';
import { invalidField } from '../../domain/problem.ts';

/** As the caller sent it, where that is valid; else the id of the request. */
export function correlationIdOf(request: FastifyRequest): string {
  const sent = request.headers['x-correlation-id'];
  return typeof sent === 'string' && schema.safeParse(sent).success ? sent : request.id;
}

/** Throws `validation_failed` for a correlation id that can't be echoed. */
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
