// The frame of every operation under /v1: a route for each handler, from the table of the contract. The frame
// authenticates, admits, parses, guards against concurrent duplicates and answers; a handler says only what the operation does.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type EtagKind, parseEtag } from '../contract/fields/headers.ts';
import { routeSchema } from '../contract/openapi/openapi-document.ts';
import type { OperationSpec } from '../contract/operations/operation.ts';
import type { OperationId, OperationInput, Operations } from '../contract/operations/operations.ts';
import { parseRequest } from '../contract/operations/request.ts';
import { notFound } from '../domain/problem.ts';
import type { Caller, ServiceContext } from '../service/calls/context.ts';
import { fingerprintOf, type RunningKeys, replayOf } from '../service/calls/idempotency.ts';
import { type Answer, runWrite, type Write } from '../service/calls/write.ts';
import { findAnswer, type IdempotencyGuard } from '../store/tenancy/idempotency.ts';
import type { Admission, Admit } from './auth/admission.ts';
import type { Principal } from './auth/principal.ts';
import type { OpenCalls } from './http/open-calls.ts';
import { readTarget } from './http/request-target.ts';

type VersionOf<Id extends OperationId> = Operations[Id] extends { ifMatch: EtagKind } ? number : undefined;

export interface Call<Id extends OperationId> {
  /** Parsed by the contract, defaults filled in. */
  input: OperationInput<Id>;
  caller: Caller;
  principal: Principal;
  context: ServiceContext;
  /** For every write: one transaction, under the call's idempotency key where the operation has one. */
  write: Write;
  /**
   * The version that `If-Match` names; set on each operation that needs one. A tag that can't be one of ours is
   * version 0, which no resource has: compare, and throw `precondition_failed` when it differs.
   */
  ifMatch: VersionOf<Id>;
  /** Aborted when the caller is gone or the service drains: what is held open answers as it is now. */
  signal: AbortSignal;
}

/** Answers a success; refusals are thrown as ProblemError. */
export type Handler<Id extends OperationId> = (call: Call<Id>) => Promise<Answer>;
export type Handlers<Ids extends OperationId> = { [Id in Ids]: Handler<Id> };

export interface OperationDeps {
  context: ServiceContext;
  operations: Operations;
  admit: Admit;
  runningKeys: RunningKeys;
  openCalls: OpenCalls;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on operations of the contract, before the body is read. */
    admission: Admission | undefined;
  }
}

/** Registers a route for each handler. */
export function registerOperations<Ids extends OperationId>(
  app: FastifyInstance,
  deps: OperationDeps,
  handlers: Handlers<Ids>,
): void {
  for (const id of Object.keys(handlers) as Ids[]) registerOperation(app, deps, id, handlers[id]);
}

function registerOperation<Id extends OperationId>(
  app: FastifyInstance,
  deps: OperationDeps,
  id: Id,
  handler: Handler<Id>,
): void {
  const spec: OperationSpec = deps.operations[id];
  app.route({
    method: spec.method,
    url: spec.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    schema: routeSchema(id),
    // Before the body is read: a stranger's bytes are not worth a buffer.
    onRequest: async (request) => {
      // `/v1/projects/` is no project without an id.
      if (Object.values(request.params ?? {}).includes('')) throw notFound();
      request.admission = await deps.admit(spec, request);
    },
    handler: async (request, reply) => {
      const { admission } = request;
      if (!admission) throw notFound();
      const open = deps.openCalls.begin(spec);
      const leave = () => open.abort();
      reply.raw.once('close', leave);
      try {
        const input = parseRequest(deps.operations[id], {
          params: request.params,
          query: readTarget(request.raw.url).query,
          body: request.body,
          headers: request.headers,
        }) as OperationInput<Id>;
        const guard = guardOf(spec, request, { admission, context: deps.context });
        const call: Call<Id> = {
          input,
          caller: admission.caller,
          principal: admission.principal,
          context: deps.context,
          write: runWrite(deps.context.pool, guard),
          ifMatch: versionOf(spec, request) as VersionOf<Id>,
          signal: open.signal,
        };
        return send(reply, await guarded(deps, guard, () => handler(call)));
      } finally {
        reply.raw.off('close', leave);
        deps.openCalls.end(open);
      }
    },
  });
}

/**
 * A replay answers before the handler runs, so that nothing that the handler looks at can refuse it. Many replays
 * may run at once; the first call with a key runs alone. What commits between the two is found by runWrite.
 */
async function guarded(
  { runningKeys, context }: OperationDeps,
  guard: IdempotencyGuard | undefined,
  call: () => Promise<Answer>,
): Promise<Answer> {
  if (!guard) return await call();
  runningKeys.refuseDuplicate(guard);
  const stored = await findAnswer(context.pool, guard);
  return stored ? replayOf(stored, guard) : await runningKeys.only(guard, call);
}

function guardOf(
  spec: OperationSpec,
  request: FastifyRequest,
  { admission, context }: { admission: Admission; context: ServiceContext },
): IdempotencyGuard | undefined {
  const key = request.headers['idempotency-key'];
  if (!spec.idempotent || typeof key !== 'string') return undefined;
  const { path, pairs } = readTarget(request.raw.url);
  const body = spec.bodyOptional ? (request.body ?? {}) : request.body;
  return {
    scopeId: admission.scopeId,
    key,
    secrets: context.secrets,
    fingerprint: fingerprintOf({ method: spec.method, path, query: pairs, body }),
  };
}

function versionOf(spec: OperationSpec, request: FastifyRequest): number | undefined {
  const tag = request.headers['if-match'];
  return spec.ifMatch && tag !== undefined ? (parseEtag(spec.ifMatch, tag) ?? 0) : undefined;
}

function send(reply: FastifyReply, answer: Answer): FastifyReply {
  reply.code(answer.status).headers(answer.headers ?? {});
  if (answer.body === undefined) return reply.send();
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body));
}
